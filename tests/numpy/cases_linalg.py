"""Expressions over products, linear algebra, transforms and ufunc methods."""

from __future__ import annotations

PRODUCTS = [
    *(
        f"jnp.{name}({a}, {b})"
        for name in ("dot", "matmul", "inner", "outer", "vdot", "kron", "tensordot", "vecdot")
        for a, b in (
            ("k", "k"),
            ("m", "m"),
            ("m", "k[:2]"),
            ("k[:2]", "m"),
            ("mm", "r"),
            ("mm", "mm.mT"),
            ("t3", "t3.mT"),
            ("c", "c"),
            ("i8", "i8"),
            ("b", "b"),
            ("i", "f.T"),
            ("w", "k"),
            ("2", "3"),
            ("h", "h"),
            ("e2", "e2.T"),
            ("f", "f"),
        )
        if not (name == "tensordot" and "k" in a + b)
    ),
    "jnp.matmul(t3[:, None], t3[None].mT)",
    "jnp.matmul(k, mm.mT)",
    "jnp.matmul(jnp.ones((1, 2, 3)), jnp.ones((5, 3, 4)))",
    "jnp.matmul(jnp.ones((4, 1, 2, 3)), jnp.ones((5, 3, 4)))",
    "jnp.matmul(jnp.ones((4, 2, 3)), jnp.ones((5, 3, 4)))",
    "jnp.tensordot(t3, t3, axes=((0, 1), (0, 1)))",
    "jnp.tensordot(t3, t3, axes=3)",
    "jnp.tensordot(t3, t3, axes=4)",
    "jnp.tensordot(t3, f, axes=(0, 0))",
    "jnp.matvec(mm, k)",
    "jnp.vecmat(c[:2], c2)",
    "jnp.vecdot(t3, t3, axis=0)",
    "jnp.dot(i8, i8, preferred_element_type='i4')",
    "jnp.cross(k, f1[:3])",
    "jnp.cross(k[:2], k[:2])",
    "jnp.cross(k[:2], k)",
    "jnp.cross(f, f[::-1])",
    "jnp.cross(f1, k)",
    "jnp.einsum('ij,jk->ik', m, m)",
    "jnp.einsum('ij,jk', m, m)",
    "jnp.einsum('ii', m)",
    "jnp.einsum('ii->i', m)",
    "jnp.einsum('ij->ji', f)",
    "jnp.einsum('ij->', f)",
    "jnp.einsum('ijk,ijk->ij', t3, t3)",
    "jnp.einsum('...j,jk->...k', mm, r)",
    "jnp.einsum('bij,bjk->bik', mm, mm.mT)",
    "jnp.einsum('i,j,k->ijk', k, f1, i8)",
    "jnp.einsum('ij,jk,kl->il', m, m, m)",
    "jnp.einsum('ij,ij,ij->j', m, m, m)",
    "jnp.einsum('i,i->i', k, k)",
    "jnp.einsum('iij,j->i', jnp.ones((2, 2, 3)), k)",
    "jnp.einsum(m, [0, 1], m, [1, 2], [0, 2])",
    "jnp.einsum('ij,j->i', f, f1)",
    "jnp.einsum('ij,kj->ik', f[:1], f)",
    "jnp.einsum('ij,ij->ij', f[:1], f)",
    "jnp.einsum('ab,cd->', m, m)",
    "jnp.einsum('i->i', b)",
    "jnp.einsum('i,i->', b, b)",
    "jnp.einsum('i,i->', w + k, k)",
    "jnp.einsum('ij,jk->ik', m, m, preferred_element_type='f2')",
]

LINALG = [
    *(
        f"jnp.linalg.{name}({a})"
        for name in (
            "det",
            "inv",
            "cholesky",
            "eigvalsh",
            "pinv",
            "matrix_rank",
            "cond",
            "norm",
            "svdvals",
            "trace",
            "matrix_transpose",
            "diagonal",
            "matrix_norm",
            "vector_norm",
            "slogdet",
        )
        for a in ("m", "spd", "i[:, :2]", "f", "c2", "f1", "jnp.stack([m, m.T])")
    ),
    "jnp.linalg.det(jnp.eye(5) * 2 + jnp.ones((5, 5)))",
    "jnp.linalg.slogdet(m, method='qr')",
    "jnp.linalg.slogdet(jnp.ones((3, 3)))",
    "jnp.linalg.cholesky(spd, upper=True)",
    "jnp.linalg.solve(m, k[:2])",
    "jnp.linalg.solve(m, f[:, :2])",
    "jnp.linalg.solve(jnp.stack([m, m.T]), k[:2])",
    "jnp.linalg.solve(m, k)",
    "jnp.linalg.solve(f, k)",
    "jnp.linalg.solve(m.astype('f2'), k[:2])",
    "jnp.linalg.matrix_power(i[:, :2], 3)",
    "jnp.linalg.matrix_power(m, -2)",
    "jnp.linalg.matrix_power(m, 0)",
    "jnp.linalg.matrix_power(m, 1.5)",
    "jnp.linalg.multi_dot([m, m, m])",
    "jnp.linalg.multi_dot([k[:2], m, k[:2]])",
    "jnp.linalg.cross(f, k)",
    "jnp.linalg.cross(k[:2], k[:2])",
    "jnp.linalg.outer(k, k)",
    "jnp.linalg.outer(m, k)",
    "jnp.linalg.tensorsolve(jnp.eye(6).reshape(2, 3, 2, 3), f)",
    "jnp.linalg.tensorinv(jnp.eye(6).reshape(2, 3, 6) * 2)",
    *(
        f"jnp.linalg.norm({a}, {order}{extra})"
        for order in (
            "None",
            "'fro'",
            "'nuc'",
            "jnp.inf",
            "-jnp.inf",
            "1",
            "-1",
            "2",
            "-2",
            "0",
            "3",
            "'x'",
        )
        for a, extra in (
            ("f", ""),
            ("f1", ""),
            ("mm", ", axis=(1, 2), keepdims=True"),
            ("f", ", axis=1"),
        )
        if not (order == "-2" and a == "mm")
    ),
    *(
        f"jnp.linalg.vector_norm(f, ord={order})"
        for order in ("jnp.inf", "1", "0", "3", "-jnp.inf")
    ),
    "jnp.linalg.vector_norm(t3, axis=(0, 1), keepdims=True)",
    "jnp.linalg.norm(t3, axis=(0, 1, 2))",
    "jnp.linalg.norm(i)",
    "jnp.linalg.cond(m, 1)",
    "jnp.linalg.cond(m, -2)",
    "jnp.linalg.cond(f, 1)",
    "jnp.linalg.svd(m, compute_uv=False)",
    "jnp.linalg.svd(spd, hermitian=True, compute_uv=False)",
    "jnp.linalg.qr(m, mode='x')",
    "jnp.linalg.eigh(m, 'X')",
    "jnp.linalg.pinv(spd, hermitian=True)",
    "jnp.linalg.pinv(f, rcond=1e-3)",
    "jnp.linalg.matrix_rank(jnp.zeros((2, 2)))",
    "jnp.linalg.matrix_rank(f1)",
    "jnp.linalg.lstsq(f.T, k)[0]",
    "jnp.linalg.lstsq(r, f.T)[0]",
    "jnp.linalg.lstsq(r, k)",
    "jnp.linalg.eigvals(f)",
    "jnp.polyfit(f1, f1 * 2 + 1, 1)",
]

# Factors are unique only up to signs and phases: shapes and dtypes are compared, products checked
# in test_linalg.py.
LINALG_TYPES = [
    f"jnp.linalg.{call}"
    for a in ("m", "spd", "f", "c2", "jnp.stack([m, m.T])")
    for call in (
        f"qr({a})",
        f"qr({a}, 'r')",
        f"qr({a}, 'complete')",
        f"svd({a})",
        f"svd({a}, full_matrices=False)",
        f"eigh({a})",
        f"eig({a})",
        f"eigvals({a})",
        f"lstsq({a}, k[:2])",
    )
]

FFT = [
    *(
        f"jnp.fft.{name}({a}{extra})"
        for name in ("fft", "ifft", "rfft", "irfft", "hfft", "ihfft")
        for a, extra in (
            ("f1", ""),
            ("f", ", axis=0"),
            ("c", ""),
            ("f1", ", n=3"),
            ("f1", ", n=7"),
            ("i1", ""),
            ("f1", ", norm='ortho'"),
            ("f1", ", norm='forward'"),
            ("f1", ", norm='x'"),
            ("f0", ""),
            ("f1", ", axis=(0,)"),
            ("h", ""),
        )
    ),
    *(
        f"jnp.fft.{name}({a}{extra})"
        for name in ("fftn", "ifftn", "rfftn", "irfftn", "fft2", "ifft2", "rfft2", "irfft2")
        for a, extra in (
            ("f", ""),
            ("t3", ""),
            ("t3", ", axes=(0, 2)"),
            ("t3", ", s=(2, 5)"),
            ("f", ", norm='ortho'"),
            ("t3", ", axes=(0, 0)"),
        )
    ),
    "jnp.fft.fftfreq(5)",
    "jnp.fft.fftfreq(4, 0.5)",
    "jnp.fft.rfftfreq(5, d=2)",
    "jnp.fft.fftshift(f)",
    "jnp.fft.fftshift(t3, axes=(0, 2))",
    "jnp.fft.ifftshift(f1[:3])",
]

UFUNCS = [
    "jnp.frompyfunc(lambda x, y: x + y, 2, 1, identity=0)(1, 2)",
    *(
        f"jnp.frompyfunc(lambda x, y: x + y, 2, 1, identity=0).{call}"
        for call in (
            "reduce(i1)",
            "reduce(f, axis=None)",
            "reduce(f, axis=1, keepdims=True)",
            "accumulate(i1)",
            "outer(k, f1)",
            "at(i1, jnp.array([0, 0]), 5, inplace=False)",
            "reduceat(i1, jnp.array([0, 2]))",
            "reduce(i1, where=i1 > 1)",
            "reduce(e)",
        )
    ),
    *(
        f"jnp.{name}.{call}"
        for name in (
            "add",
            "multiply",
            "subtract",
            "maximum",
            "minimum",
            "logaddexp",
            "logical_and",
            "logical_or",
            "logical_xor",
            "bitwise_and",
            "bitwise_or",
            "bitwise_xor",
        )
        for call in (
            "reduce(i1)",
            "accumulate(i1)",
            "reduce(i, axis=1)",
            "outer(k, k)",
            "reduceat(i1, jnp.array([0, 2, 1]))",
        )
    ),
    "jnp.add.at(i1, jnp.array([0, 0]), 5, inplace=False)",
    "jnp.add.at(i1, 0, 5)",
    "jnp.negative.at(i1, jnp.array([1]), inplace=False)",
    "jnp.negative.reduce(i1)",
    "jnp.maximum.reduce(e)",
    "jnp.add.reduce(f, axis=(0, 1))",
    "jnp.add.reduce(i1, initial=10)",
    "jnp.add.reduce(i8)",
    "jnp.add.accumulate(i8)",
    "jnp.add(1)",
    "jnp.add.nin",
    "jnp.subtract.identity",
]

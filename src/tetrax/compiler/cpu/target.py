"""What the code generator wants to know of a CPU."""

from __future__ import annotations

from dataclasses import dataclass
from functools import cache

from tetrax.runtime.llvm import host_architecture, host_cpu


@dataclass(frozen=True)
class Target:
    """A CPU: its LLVM name and features, and the width of vectors worth using."""

    cpu: str
    features: str
    vector_bits: int
    has_fma: bool
    has_f16c: bool
    architecture: str = "x86_64"

    def natural_lanes(self, bits: int) -> int:
        """Lanes of a full vector register for elements of a width; at least 2."""
        return max(2, self.vector_bits // max(bits, 8))

    @property
    def key(self) -> str:
        """The part of a cache key that stands for this target."""
        return f"{self.cpu}|{self.features}|{self.vector_bits}"


@cache
def host_target() -> Target:
    """The CPU of this process, or the one that the environment variable TETRAX_CPU names."""
    cpu, features = host_cpu()
    enabled = set(features.split(","))
    wide = "+avx2" in enabled or cpu in ("x86-64-v3", "x86-64-v4")
    # 512-bit vectors are left alone: most CPUs that have them prefer 256-bit code
    return Target(
        cpu, features, 256 if wide else 128, wide or "+fma" in enabled, wide, host_architecture()
    )

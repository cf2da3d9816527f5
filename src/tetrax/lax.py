"""The public `lax`: operations without promotion or implicit broadcasting, by family.

This file only imports: every name here is public.
"""

from __future__ import annotations

from tetrax.higher_order.cond import (
    cond,
    cond_p,
    switch,
)
from tetrax.higher_order.linear_solve import (
    custom_linear_solve,
    custom_root,
    linear_solve_p,
)
from tetrax.higher_order.loops import (
    associative_scan,
    map,
    reduce,
)
from tetrax.higher_order.scan import (
    scan,
    scan_p,
)
from tetrax.higher_order.sharding_constraint import with_sharding_constraint
from tetrax.higher_order.while_loop import (
    fori_loop,
    while_loop,
    while_p,
)
from tetrax.ops import linalg
from tetrax.ops.arithmetic import (
    abs,
    abs_p,
    add,
    add_p,
    div,
    div_p,
    floor,
    floor_p,
    integer_pow,
    integer_pow_p,
    max,
    max_p,
    min,
    min_p,
    mul,
    mul_p,
    neg,
    neg_p,
    nextafter,
    nextafter_p,
    reciprocal,
    rem,
    rem_p,
    sign,
    sign_p,
    square,
    square_p,
    sub,
    sub_p,
)
from tetrax.ops.barrier import optimization_barrier, optimization_barrier_p
from tetrax.ops.bits_and_compare import (
    and_p,
    bitwise_and,
    bitwise_not,
    bitwise_or,
    bitwise_xor,
    clz,
    clz_p,
    eq,
    eq_p,
    eq_to_p,
    ge,
    ge_p,
    gt,
    gt_p,
    le,
    le_p,
    le_to_p,
    lt,
    lt_p,
    lt_to_p,
    ne,
    ne_p,
    not_p,
    or_p,
    population_count,
    population_count_p,
    shift_left,
    shift_left_p,
    shift_right_arithmetic,
    shift_right_arithmetic_p,
    shift_right_logical,
    shift_right_logical_p,
    xor_p,
)
from tetrax.ops.collective_functions import (
    all_gather,
    all_to_all,
    axis_index,
    axis_size,
    pbroadcast,
    pcast,
    pmax,
    pmean,
    pmin,
    ppermute,
    pshuffle,
    psum,
    psum_scatter,
    pswapaxes,
    pvary,
)
from tetrax.ops.contract import (
    batch_matmul,
    dot,
    dot_general,
    dot_general_p,
)
from tetrax.ops.convert import (
    bitcast_convert_type,
    bitcast_convert_type_p,
    complex,
    complex_p,
    conj,
    conj_p,
    convert_element_type,
    convert_element_type_p,
    copy_p,
    imag,
    imag_p,
    is_finite,
    is_finite_p,
    real,
    real_p,
    reduce_precision,
    reduce_precision_p,
    stop_gradient,
)
from tetrax.ops.convolution import (
    ConvDimensionNumbers,
    conv_general_dilated_p,
)
from tetrax.ops.convolution_functions import (
    ConvGeneralDilatedDimensionNumbers,
    conv,
    conv_dimension_numbers,
    conv_general_dilated,
    conv_general_dilated_local,
    conv_general_dilated_patches,
    conv_general_permutations,
    conv_general_shape_tuple,
    conv_shape_tuple,
    conv_transpose,
    conv_transpose_shape_tuple,
    conv_with_general_padding,
)
from tetrax.ops.creation import (
    broadcasted_iota,
    empty,
    full,
    full_like,
    iota,
    iota_p,
    shape_as_value,
)
from tetrax.ops.cumulative import (
    cumlogsumexp,
    cumlogsumexp_p,
    cummax,
    cummax_p,
    cummin,
    cummin_p,
    cumprod,
    cumprod_p,
    cumsum,
    cumsum_p,
    linear_recurrence,
    linear_recurrence_p,
)
from tetrax.ops.fft import (
    FftType,
    fft,
    fft_p,
)
from tetrax.ops.gather import (
    gather,
    gather_p,
    index_take,
)
from tetrax.ops.index_maps import (
    GatherDimensionNumbers,
    GatherScatterMode,
    ScatterDimensionNumbers,
)
from tetrax.ops.join import (
    concatenate,
    concatenate_p,
    pad,
    pad_p,
    slice_p,
)
from tetrax.ops.join import (
    slice_ as slice,
)
from tetrax.ops.precision import (
    DotAlgorithm,
    DotAlgorithmPreset,
    Precision,
)
from tetrax.ops.ragged import (
    RaggedDotDimensionNumbers,
    ragged_dot,
    ragged_dot_general,
)
from tetrax.ops.reduce import (
    argmax,
    argmax_p,
    argmin,
    argmin_p,
    reduce_and,
    reduce_and_p,
    reduce_max,
    reduce_max_p,
    reduce_min,
    reduce_min_p,
    reduce_or,
    reduce_or_p,
    reduce_prod,
    reduce_prod_p,
    reduce_sum,
    reduce_sum_p,
    reduce_xor,
    reduce_xor_p,
)
from tetrax.ops.rng import (
    RandomAlgorithm,
    rng_bit_generator,
    rng_bit_generator_p,
    rng_uniform,
    rng_uniform_p,
)
from tetrax.ops.scatter import (
    scatter_add_p,
    scatter_max_p,
    scatter_min_p,
    scatter_mul_p,
    scatter_p,
    scatter_sub_p,
)
from tetrax.ops.scatter_functions import (
    scatter,
    scatter_add,
    scatter_apply,
    scatter_max,
    scatter_min,
    scatter_mul,
    scatter_sub,
)
from tetrax.ops.select import (
    clamp,
    clamp_p,
    select,
    select_n,
    select_n_p,
)
from tetrax.ops.shape import (
    broadcast,
    broadcast_in_dim,
    broadcast_like,
    broadcast_shapes,
    broadcast_to_rank,
    collapse,
    expand_dims,
    reshape,
    rev,
    rev_p,
    squeeze,
    squeeze_p,
    tile,
    tile_p,
    transpose,
)
from tetrax.ops.slicing import (
    dynamic_index_in_dim,
    dynamic_slice,
    dynamic_slice_in_dim,
    dynamic_slice_p,
    dynamic_update_index_in_dim,
    dynamic_update_slice,
    dynamic_update_slice_in_dim,
    dynamic_update_slice_p,
    index_in_dim,
    slice_in_dim,
)
from tetrax.ops.sort import (
    approx_max_k,
    approx_min_k,
    sort,
    sort_key_val,
    sort_p,
    top_k,
    top_k_p,
)
from tetrax.ops.special import (
    digamma,
    digamma_p,
    erf,
    erf_inv,
    erf_inv_p,
    erf_p,
    erfc,
    erfc_p,
    lgamma,
    lgamma_p,
)
from tetrax.ops.special_bessel_beta import (
    bessel_i0e,
    bessel_i0e_p,
    bessel_i1e,
    bessel_i1e_p,
    betainc,
    regularized_incomplete_beta_p,
)
from tetrax.ops.special_gamma import (
    igamma,
    igamma_grad_a,
    igamma_grad_a_p,
    igamma_p,
    igammac,
    igammac_p,
    polygamma,
    polygamma_p,
    random_gamma_grad,
    zeta,
    zeta_p,
)
from tetrax.ops.split import (
    split,
    split_p,
    stack,
    stack_p,
    unstack,
    unstack_p,
)
from tetrax.ops.structure import (
    broadcast_in_dim_p,
    reshape_p,
    transpose_p,
)
from tetrax.ops.transcendental import (
    RoundingMethod,
    acos,
    acos_p,
    acosh,
    acosh_p,
    asin,
    asin_p,
    asinh,
    asinh_p,
    atan,
    atan2,
    atan2_p,
    atan_p,
    atanh,
    atanh_p,
    cbrt,
    cbrt_p,
    ceil,
    ceil_p,
    cos,
    cos_p,
    cosh,
    cosh_p,
    exp,
    exp2,
    exp2_p,
    exp_p,
    expm1,
    expm1_p,
    log,
    log1p,
    log1p_p,
    log_p,
    logistic,
    logistic_p,
    pow,
    pow_p,
    round,
    round_p,
    rsqrt,
    rsqrt_p,
    sin,
    sin_p,
    sinh,
    sinh_p,
    sqrt,
    sqrt_p,
    tan,
    tan_p,
    tanh,
    tanh_p,
)
from tetrax.ops.window import (
    reduce_window_max_p,
    reduce_window_min_p,
    reduce_window_sum_p,
    select_and_gather_add_p,
    select_and_scatter_add_p,
)
from tetrax.ops.window_functions import (
    reduce_window,
    reduce_window_shape_tuple,
)
from tetrax.ops.window_shapes import (
    padtype_to_pads,
)

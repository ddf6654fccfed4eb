"""The arguments of every function of the native library: one table, compared with the C++ structs by a test.

A line is ``name: type``. Types are ``int``, ``real``, or arrays: a dtype with named sizes, which must agree within a
call (``2*n`` and the like are computed from others). ``out`` marks arrays that are written, ``?`` those that can be
None. The struct in native/ has the same fields in the same order. A type with a capital is a group of fields, a struct
within the struct, given as a tuple; sizes may have other names in it: ``Systems[N=I n=m]``.
"""

from __future__ import annotations

GROUPS = {
    "Systems": """
        transition: f64[N n n]
        state_offset: f64[N n]
        emission: f64[N d n]
        observation_offset: f64[N d]
        process_covariance: f64[N n n]
        observation_covariance: f64[N d d]
        initial_mean: f64[N n]
        initial_covariance: f64[N n n]
    """,
    "GaussianSide": """
        entries: f64[N e]
        mean: f64[N d]
    """,
    "PairStrings": """
        left: i32[A]
        left_offsets: i64[I1]
        right: i32[B]
        right_offsets: i64[J1]
        rows: i64[P]
        columns: i64[P]
    """,
    "GeneralModel": """
        emission: f64[C n]
        silent: f64[n]
        start: f64[n]
        step: f64[n n]
        stop: f64[n]
    """,
    "ChainModels": """
        initial: f64[N n]
        transition: f64[N n n]
    """,
    "WordCounts": """
        values: f64[e]
        words: i64[e]
        begins: i64[I1]
        totals: i64[I]
    """,
    "ContextChains": """
        first: f64[N C]
        step: f64[N C k]
        stop: f64[N C]
    """,
    "ProfileNodes": """
        nodes: f64[T w]
        powers: f64[T w]
        offsets: i64[N1]
        plain: u8[N]
        alike: u8[N]
        members: i64[I]
    """,
}

_CSR = """
    values: f64[e]
    logs: f64[e]?
    indices: i64[e]
    indptr: i64[I1]
    words: i64[s]
    starts: i64[s1]
    rows: i32[p]
    postings: f64[p]
    posting_logs: f64[p]?
    n_columns: int
    out: out f64[I J]
"""

_PROFILE = """
    odds: f64[c w]
    insert_odds: f64[c w]
    steps: f64[7 w]
    entry: f64[w]
    leave: f64[w]
    codes: i64[T]
    offsets: i64[S1]
    flanks: f64[S 4]
"""

_RUNS = """
    initial: f64[N n]
    transition: f64[N n n]
    log_density: f64[T n]?
    codes: i64[T]?
    probability: f64[N k n]?
    start: i64[S]
    length: i64[S]
    model: i64[S]
    order: i64[R]
    begin: int
    end: int
"""

_SPANS = """
    begin_x: i64[P]
    size_x: i64[P]
    begin_y: i64[P]
    size_y: i64[P]
"""

SIGNATURES = {
    "general_pairs": """
        model: GeneralModel
        strings: PairStrings
        empty: real
        floor: real
        log_value: out f64[P]
    """,
    "general_expected": """
        model: GeneralModel
        strings: PairStrings
        gain: out f64[P n1]
        moves: out f64[P n n1]
        symbols: out f64[P n C]
        once: out f64[P n]
        log_value: out f64[P]
        matched: out f64[s t]?
    """,
    "walk": """
        next: int
        generator: int
        step: f64[n n1]
        silent: f64[n]
        letters: f64[n k]
        state: out i64[N]
        on: out i64[N]
        count: int
        owner: out i32[copies room]
        symbol: out i32[copies room]
        used: out i64[copies]
    """,
    "most_accurate": """
        probability: f64[n m]
        least: real
        best: out f64[n1 m1]
        cells: out i64[k 2]
    """,
    "ranged_affine": """
        joint: f64[C C]
        insertion: f64[C]
        rates: f64[R]
        strings: PairStrings
        log_value: out f64[P]
        matched: out f64[P C C]?
        letters: out f64[P C]?
        runs: out f64[P 5]?
        probability: out f64[n m]?
    """,
    "affine_pairs": """
        match: f64[C D]
        left: i32[A]
        left_offsets: i64[I1]
        right: i32[B]
        right_offsets: i64[J1]
        order: i64[J]
        gap: real
        none: real
        first: real
        growth: real
        single: int
        start: int
        rows: int
        place: out i64[3]
        memory: out f64[M]
        log_value: out f64[I J]
    """,
    "csr_products": _CSR,
    "csr_entropies": _CSR,
    "chains": """
        left: ChainModels[N=I]
        right: ChainModels[N=J n=m]
        weights_a: f64[I n k]?
        weights_b: f64[J m k]?
        psi: f64[I*n J*m]?
        first: f64[I*n J*m]?
        lengths: i64[H]
        block: int
        log_value: out f64[H I J]
    """,
    "kalman_room": """
        n: int
        d: int
        block: int
        blocks: int
        smooth: int
    """,
    "kalman": """
        systems: Systems
        x: f64[T d]
        start: i64[S]
        length: i64[S]
        model: i64[S]
        place: i64[S]
        parent: i64[S]?
        before_mean: f64[B n]?
        before_covariance: f64[B n n]?
        path: i64[W]?
        path_start: i64[S]?
        regimes: int
        order: i64[O]
        by_model: int
        block: int
        resumed: int
        limit: real
        memory: out f64[M]
        log_prob: out f64[S]
        means: out f64[C n]?
        covariances: out f64[C n n]?
        lags: out f64[C n n]?
        sums: out f64[R w]?
        gradients: out f64[S g]?
        converging: out f64[S]?
    """,
    "system_pairs": """
        left: Systems[N=I]
        right: Systems[N=J n=m]
        paths_a: i64[A L]?
        paths_b: i64[B L]?
        rows: i64[P]
        columns: i64[P]
        lengths: i64[H]
        noise: real
        extra: real
        log_density: out f64[H P]
    """,
    "ranged_chains": """
        left: ChainModels[N=I]
        right: ChainModels[N=J n=m]
        logarithms: int
        rows: i64[P]
        columns: i64[P]
        log_psi: f64[P n m]
        lengths: i64[H]
        log_value: out f64[H P]
    """,
    "discounted_chains": """
        left: ChainModels[N=I]
        right: ChainModels[N=J n=m]
        psi: f64[I*n J*m]
        factors: f64[I J]
        growth_a: f64[I]
        growth_b: f64[J]
        tail: real
        patience: int
        value: out f64[I J]
    """,
    "gaussian_pairs": """
        left: GaussianSide[N=I]
        right: GaussianSide[N=J]
        scale: real
        identity: real
        weight: real
        own: f64[I]?
        other: f64[J]?
        value: out f64[I J]?
        log_det: out f64[I J]?
        quadratic: out f64[I J]?
    """,
    "point_sums": f"""{_SPANS}
        x: f64[T d]
        v: f64[T m]?
        y: f64[d U]
        w: f64[m U]?
        scale: f64[P]
        shift: f64[S]
        term: int
        each: int
        out: out f64[S 2]
    """,
    "window_sums": f"""{_SPANS}
        x: f64[T d]
        y: f64[d U]
        width: int
        scale: real
        shift: f64[P]
        term: int
        out: out f64[P]
    """,
    "difference_counts": f"""{_SPANS}
        x: i32[T]
        y: i32[U]
        out: out f64[P c]
    """,
    "forward": f"""{_RUNS}
        trusted: real
        ratios: int
        log_prob: out f64[S]
        first: out f64[S n]?
        transitions: out f64[S n n]?
        visits: out f64[S n]?
        states: out f64[T n]?
        symbols: out f64[S n k]?
        cell: i64[T]?
        ends: i64[S1]?
        steps: out f64[C n n]?
    """,
    "pair_cells": """
        codes: i64[T]
        offsets: i64[S1]
        width: int
        cell: out i64[T]
        owner: out i64[T]
        pair: out i64[T]
    """,
    "best_paths": f"""{_RUNS}
        path: out i32[T]
        value: out f64[S]
    """,
    "gaussian_rows": """
        x: f64[T d]
        owner: i64[T]
        mean: f64[N n d]
        covariance: f64[N n c]
        out: out f64[T n]
    """,
    "moments": """
        x: f64[T d]
        weights: f64[T n]
        offsets: i64[S1]
        center: f64[C n d]
        mass: out f64[S n d]?
        first: out f64[S n d]?
        second: out f64[S n d]?
        full: out f64[S n d d]?
    """,
    "histories": """
        children: i64[V]
        roots: i64[V]
        waits: i64[V]
        depth: int
        step: f64[E s s]
        root: f64[s]
        left: f64[I V s]
        right: f64[J V s]
        log_left: f64[I V s]?
        log_right: f64[J V s]?
        watched: int
        least: real
        floor: real
        value: out f64[I J]?
        alone: out f64[I]?
    """,
    "count_sums": """
        left: f64[I w s]
        right: f64[J w s]
        tables: out f64[I s J]
    """,
    "log_count_sums": """
        left: f64[I w s]
        right: f64[J w s]
        rows: i64[P]
        columns: i64[P]
        logs: out f64[P s]
    """,
    "count_mean_maps": """
        left: WordCounts
        right: WordCounts[e=f I1=J1 I=J]
        log_factorials: f64[n]
        gamma: real
        rows: i64[P]
        columns: i64[P]
        log_value: out f64[P]
    """,
    "profiles": _PROFILE
    + """
        watch: int
        ranged: int
        log_odds: out f64[S]
        matched: out f64[S c w]?
        inserted: out f64[S c w]?
        stepped: out f64[S 7 w]?
        entered: out f64[S w]?
    """,
    "profile_paths": _PROFILE
    + """
        value: out f64[S]
        path: out i64[T]
    """,
    "profile_products": """
        left: ProfileNodes
        right: ProfileNodes[T=U N1=M1 N=M I=J]
        rho: real
        ranged: int
        place: out i64[1]
        log_value: out f64[I J]
    """,
    "context_products": """
        left: ContextChains[N=I]
        right: ContextChains[N=J]
        steps: i64[H]
        log_value: out f64[H I J]
    """,
    "readings": """
        initial: f64[h]
        slots: i64[C]
        rows: f64[R w]
        order: int
        end: int
        codes: i64[T]
        offsets: i64[M1]
        members: u8[c k]
        nodes: int
        log_prob: out f64[M]?
        owner: out i64[E]?
        window: out i64[E]?
        number: out f64[E]?
    """,
}

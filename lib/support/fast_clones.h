#pragma once

// A function with this is compiled for AVX2 as well and chosen at the start. Products and sums are
// not fused, so that both give the same bits. Not under clang or the thread sanitizer, whose start
// comes after the choice.
#if defined(__x86_64__) && defined(__GNUC__) && !defined(__clang__) && !defined(__SANITIZE_THREAD__)
#define DIMRED_FAST_CLONES __attribute__((target_clones("avx2", "default")))
#else
#define DIMRED_FAST_CLONES
#endif

#pragma once

namespace dimred::training {

/// From now on this process computes the same bits from the same inputs on the same machine with
/// the same number of threads: torch throws for an operator that has no such form, cuDNN and oneDNN
/// choose algorithms by rule instead of by time, cuBLAS keeps one workspace, and memory that is
/// read before it is written holds NaN. Before the first operator. Source: PyTorch's notes on
/// reproducibility, use_deterministic_algorithms(True).
void make_deterministic();

}  // namespace dimred::training

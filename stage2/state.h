#pragma once

#include "checkpoints/state.h"
#include "engine/setup.h"
#include "engine/weights/average.h"
#include "method/method.h"
#include "stage2/tensor_space.h"

namespace dimred::stage2 {

/// The descent that a state is of: it goes on only in the same one.
struct SavedDescent {
  method::Method* method = nullptr;
  TensorSpace* space = nullptr;
  engine::Average* average = nullptr;
  double length = 0;               // budget or epochs
  bool depends_on_length = false;  // the steps depend on it
};

/// Puts the descent into a state. Vectors of own columns go to the file gathered over ranks and in
/// file order, so the state is independent of their number. Cost: one read of P, for P w, by which
/// a resume knows it.
void save(checkpoints::State& state, const engine::Setup& setup, const SavedDescent& descent);

/// Each rank keeps its own columns, whatever the number of ranks that saved. Throws
/// std::invalid_argument when the state is of another method or k, or was made with another basis
/// or schedule.
void restore(const checkpoints::State& state,
             const engine::Setup& setup,
             const SavedDescent& descent);

}  // namespace dimred::stage2

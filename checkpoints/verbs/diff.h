#pragma once

#include <cstdint>
#include <filesystem>
#include <string>
#include <vector>

#include "checkpoints/verbs/compare.h"
#include "checkpoints/verbs/rename.h"
#include "support/byte_progress.h"

// Two checkpoints of any readable kinds, tensor by tensor, each read once where it lies.
namespace dimred::verbs {

struct DiffOptions {
  Tolerance tolerance;
  RenameRules renames;               // of A's names; none: names stay
  std::string include, exclude;      // expressions, searched in the names of each side as they are
                                     // there; empty: none
  std::string take;                  // raw, averaged: of a side that has both; empty: its rule
  std::int64_t threads = 0;          // 0: all cores of this process
  ByteProgress* progress = nullptr;  // of both sides' tensors; null: nobody looks
};

enum class DiffStatus {
  same,
  different,  // elements differ
  dtype,      // the types differ, and perhaps values, too
  shape,      // no element has a partner
};

/// "same", "different", "dtype", "shape".
std::string name_of(DiffStatus status);

/// One tensor of a checkpoint.
struct DiffSide {
  std::string name;  // in its checkpoint
  std::string dtype;
  std::vector<std::int64_t> shape;
};

/// A tensor that both checkpoints hold, under the name that B has for it.
struct TensorDiff {
  DiffSide a, b;
  DiffStatus status = DiffStatus::same;
  Distance distance;  // no elements: the shapes differ
};

struct Difference {
  std::filesystem::path a, b;
  std::string format_a, format_b;
  bool same = true;
  std::vector<DiffSide> only_a, only_b;
  std::vector<TensorDiff> tensors;   // in A's order
  std::vector<std::string> remarks;  // what was not compared, and how names would meet, a line each
  std::int64_t bytes = 0;            // of A's tensors that are compared
};

/// Compares two checkpoints that open_checkpoint() takes. Elements in the same place of the same
/// file on both sides are not read. Training state is left out, with a remark. Memory: threads x
/// 1.5 MB. Throws std::invalid_argument for a caller's fault, std::runtime_error for damaged or
/// changing files and I/O errors.
Difference diff(const std::filesystem::path& a,
                const std::filesystem::path& b,
                const DiffOptions& options = {});

}  // namespace dimred::verbs

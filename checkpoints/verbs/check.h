#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "checkpoints/checkpoint.h"
#include "checkpoints/verbs/reading.h"
#include "support/bytes.h"

// Values and places of a checkpoint that no network should have.
namespace dimred::verbs {

/// Counts and extremes of a run of stored elements; add() joins runs that follow each other.
struct ValueCounts {
  std::int64_t elements = 0;
  std::int64_t nan = 0;
  std::int64_t infinite = 0;              // of both signs
  std::int64_t negative_infinite = 0;     // among `infinite`
  std::int64_t zero = 0;                  // of both signs
  std::uint64_t first_bits = 0;           // of element 0; a zero's without its sign
  bool constant = true;                   // each element has the first one's value
  std::optional<std::int64_t> first_bad;  // the first element that is not finite

  /// Adds the run that follows this one.
  void add(const ValueCounts& next);
  std::int64_t bad() const { return nan + infinite; }
  /// Returns true where every value is 0 or -inf, and one is -inf.
  bool is_mask() const { return negative_infinite > 0 && negative_infinite + zero == elements; }
};

/// Counts the values of stored elements. Integers, booleans and floats of fewer than 8 bits are
/// finite always; elements of fewer than 8 bits count as not constant. A complex number is bad
/// where one of its parts is. Sources of the 8-bit types: Micikevicius et al., FP8 Formats for Deep
/// Learning, 2022; OCP Microscaling Formats 1.0; ONNX's float8 for FNUZ. Cost: one read of
/// `stored`.
ValueCounts count_values(std::string_view dtype, ByteView stored);

/// The findings of a check, a line each.
struct CheckReport {
  std::vector<std::string> faults;
  std::vector<std::string> remarks;
};

/// Reads all values of the checkpoint once, block by block on threads. Faults: tensors with NaN or
/// infinities, with counts and the first element. Remarks: constant tensors of several elements and
/// masks (every value 0 or -inf). Throws std::runtime_error for a file that cannot be read, and
/// where `progress` says to stop. Memory: 4 MiB a thread, and 100 bytes for each 4 MiB of the
/// checkpoint.
CheckReport check_values(const checkpoints::Checkpoint& checkpoint, const Reading& reading);

/// Compares the places of tensors in their files. Remarks: tensors that share all their values.
/// Faults: tensors of a distributed checkpoint that overlap in part; PyTorch's files may hold views
/// that do. Cost: sorts the places.
CheckReport check_places(const checkpoints::Checkpoint& checkpoint);

}  // namespace dimred::verbs

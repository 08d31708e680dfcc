#pragma once

#include <cstdint>
#include <filesystem>
#include <string>
#include <vector>

namespace dimred::checkpoints {

/// Steps by what checkpoints are called.
struct Steps {
  std::vector<std::int64_t> of;  // of each checkpoint; its place from 1 on where names have none
  bool counted = false;          // places stand for steps
  std::string stages;            // why they are no single series: "stage 1 and stage 2"; else empty
  std::string conflict;          // why their steps give no order, for a person; else empty
};

/// Reads the steps of checkpoints from their names (name_of()): the integer behind step, iter,
/// checkpoint, ckpt or epoch (the first of these that all names have); of checkpoint_A_B it is B.
/// Else the last number, where the names differ in nothing else. Else, where no name has a number
/// that differs, these rules hold for the nearest folder in which the paths differ. A unit k, M, B
/// or T counts directly behind the digits, and before letters that are alike in all names, as tok
/// and img; other letters than another's make no order, nor do steps that epochs contradict. 0.5 is
/// no step, 0.5M is. The marks of 1,000 and step_1_000 do not count.
Steps steps_of(const std::vector<std::filesystem::path>& checkpoints);

}  // namespace dimred::checkpoints

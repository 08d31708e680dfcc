#pragma once

#include <cstddef>
#include <cstdint>
#include <filesystem>
#include <string>
#include <vector>

#include "checkpoints/runs.h"

namespace dimred::checkpoints {

/// Steps by what checkpoints are called.
struct Steps {
  std::vector<std::int64_t> of;  // of each checkpoint; its place from 1 on where names have none
  bool counted = false;          // places stand for steps
  std::string stages;            // why they are no single series: "stage 1 and stage 2"; else empty
  std::string conflict;          // why their steps give no order, for a person; else empty
};

/// Reads the steps of checkpoints from their names (name_of()): the integer behind step, iter,
/// checkpoint, ckpt or epoch (the first of these that all names have and whose numbers differ; else
/// the first that all names have); of checkpoint_A_B it is B. Else the last number, where the names
/// differ in nothing else. Else, where no name has a number that differs, these rules hold for the
/// nearest folder in which the paths differ. A unit k, M, B or T counts directly behind the digits,
/// and before letters that are alike in all names, as tok and img; other letters than another's, of
/// any alphabet, make no order, nor do units behind a mark that differ (900_k, 1_m), a letter
/// between digits (1k5), nor steps that epochs contradict. 9e5 is 900000. 0.5 is no step, 0.5M is;
/// a fraction behind step or iter, which may be a thousand, makes no order. The marks of 1,000,
/// 1'000, "step_1 000" and step_1_000 do not count.
Steps steps_of(const std::vector<std::filesystem::path>& checkpoints);

/// The epochs that the names of checkpoints say, each the integer behind "epoch" or the A of
/// checkpoint_A_B: in the files' own names, else in those of the nearest folders in which the paths
/// differ. Returns none where one of the names says none.
std::vector<std::int64_t> epochs_named(const std::vector<std::filesystem::path>& checkpoints);

/// Returns how names and files differ, for a person: the first file whose name says another step
/// than the file holds, as snapshot_00000100.h5 and step100.h5 can, or else the first two members,
/// in the order of the series and of one run, whose files hold falling steps. Returns an empty text
/// where they agree.
std::string step_difference(const std::vector<MemberFacts>& series);

/// By what a name belongs to a series.
struct SeriesName {
  std::string name;     // in lower case, without an extension of weights
  std::size_t end = 0;  // of the step in the name; 0: the name has none
  bool word = false;    // a word stands before the step: step, iter, checkpoint, ckpt, epoch
  std::string shape;    // "checkpoint#" of Checkpoint-1,030, checkpoint_30k-last
};

/// Reads one name as steps_of() does; the shape goes up to the number behind a word, or is all of a
/// name with only a last number.
SeriesName series_name(const std::filesystem::path& path);

}  // namespace dimred::checkpoints

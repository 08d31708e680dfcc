#pragma once

#include <filesystem>
#include <memory>
#include <string>
#include <vector>

#include "data/open.h"
#include "data/pack.h"
#include "options/options.h"

// Parts that the tools of `dimred data` share.
namespace dimred::commands {

enum class SplitChoice { both, train, test };

/// The data set that a tool reads.
struct SourceOptions {
  data::DatasetOptions dataset;
  SplitChoice split = SplitChoice::both;
  std::int64_t threads = 0;  // 0: all cores
  bool quiet = false;
};

/// The groups Data and Machine; `data` may be given as a bare argument.
void add_source_options(OptionTable& table, SourceOptions& options);

/// One part of the source.
struct SourcePart {
  std::string name;  // "train" or "test"
  std::shared_ptr<const data::Dataset> dataset;
};

/// "train: " and what the data set is, with the state of its files: what a tool that goes on with
/// half of a work must find again.
std::string source_text(const SourcePart& part);

/// The parts that options.split asks for; of `both` the test set is left out where the source has
/// none of its own.
std::vector<SourcePart> open_source(const SourceOptions& options);

/// Throws std::invalid_argument where `part` is streamed through less room than all its files need,
/// for `what`, which jumps among them and would fetch each many times.
void require_cache_for_all(const SourcePart& part, const std::string& what);

std::int64_t thread_count(const SourceOptions& options);

/// Shows progress of `total` samples on the console.
data::Progress progress_bar(const std::string& label, std::int64_t total, bool quiet);

/// Reports on standard error the notes on the data set, such as its records that were left out, and
/// how many samples were left out (bad) or used in part (damaged) by a tool.
void report_samples(const SourcePart& part, const data::WriteReport& report);

/// Throws std::invalid_argument when `output` is empty or lies in the source (or is it, or in a
/// folder that a pattern looks through).
void check_output(const std::filesystem::path& output, const SourceOptions& options);

/// Stands behind the number of images that this start has written; empty without earlier files.
std::string earlier_text(const data::WriteReport& report);

}  // namespace dimred::commands

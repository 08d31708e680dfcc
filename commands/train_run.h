#pragma once

#include <filesystem>
#include <functional>
#include <initializer_list>
#include <string>
#include <vector>

#include "support/console.h"
#include "support/options.h"
#include "training/epoch.h"
#include "training/run_folder.h"

namespace dimred::commands {

/// Takes the data, model and loss of an opened run over into `common`, the table's fields; bfloat16
/// and float16 only where they are native. Returns a line that begins with `otherwise` for each
/// option that is set otherwise. The run's stream_cache counts for `data` that
/// is given by a flag, too: the table must leave that row to be located after this. Without a
/// configuration the table's own options count.
std::vector<std::string> adopt_run(OptionTable& table,
                                   const checkpoints::OpenedRun& run,
                                   training::CommonOptions& common,
                                   const std::string& otherwise);

/// A line where neither the run of `weights` nor an option says what they were trained on, so that
/// the default data stand in; else empty.
std::string default_data_remark(const OptionTable& table,
                                const std::filesystem::path& weights,
                                const training::DataOptions& data);

/// Prints that line, where there is one.
void print_default_data(const OptionTable& table,
                        const std::filesystem::path& weights,
                        const training::DataOptions& data);

/// The config.toml of the run, once make_setup() has filled in what the data decide.
checkpoints::RunConfig run_config(const training::CommonOptions& common, const OptionTable& table);

/// Where nobody has named a network, photographs get one that was made for them.
void choose_network_by_data(const OptionTable& table, training::ModelOptions& model);

/// How photographs are prepared and by which network they are trained, where `asked` left it open
/// and the network decides; else empty.
std::string describe_choice(const std::optional<data::Recipe>& asked,
                            const training::CommonOptions& common);

/// Data that an adopted configuration names and that are not there any more.
struct MissingData {
  std::string option;  // data or test_data; empty: nothing is missing
  std::filesystem::path path;
};
MissingData missing_data(const OptionTable& table, const training::DataOptions& data);

/// Throws std::invalid_argument for missing_data(), naming the option that says where it is now.
void require_data(const OptionTable& table, const training::DataOptions& data);

/// Keeps a run that is taken up again at its own values of those options among `fields` that nobody
/// sets now: such as were chosen by files that may be gone.
void keep_values(OptionTable& table,
                 const std::filesystem::path& run,
                 std::initializer_list<const void*> fields);

/// Trains inside a run folder: writes manifest.json as running and then as finished, interrupted or
/// failed. Returns the exit code. A run that a signal stopped leaves a mark; when torchrun then
/// restarts the ranks, which it does for any code but 0, they end at once with 143.
int train_run(const distributed::Ranks& ranks,
              const training::Setup& setup,
              const training::RunFolder& folder,
              const std::string& command,
              Console& console,
              const std::function<training::EpochEnd()>& train);

}  // namespace dimred::commands

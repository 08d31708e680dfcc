#pragma once

#include <filesystem>
#include <functional>
#include <initializer_list>
#include <string>
#include <vector>

#include "distributed/connect.h"
#include "options/options.h"
#include "run/epoch.h"
#include "run/run_folder.h"
#include "run/weights/weights.h"
#include "support/console.h"

namespace dimred::commands {

/// Takes the data, model and loss of an opened run over into `common`, the table's fields; bfloat16
/// and float16 only where they are native. Returns a line, beginning with `otherwise`, for each
/// option set otherwise. The run's stream_cache also counts for `data` given by a flag: the table
/// must locate that row after this call. Without a configuration the table's own options count.
std::vector<std::string> adopt_run(OptionTable& table,
                                   const checkpoints::OpenedRun& run,
                                   run::CommonOptions& common,
                                   const std::string& otherwise);

/// A line where neither the run of `weights` nor an option says what they were trained on, so that
/// the default data stand in, but for a normalisation that was adopted; else empty.
std::string default_data_remark(const OptionTable& table,
                                const checkpoints::OpenedRun& run,
                                const std::filesystem::path& weights,
                                const engine::DataOptions& data);

/// Prints that line, where there is one.
void print_default_data(const OptionTable& table,
                        const checkpoints::OpenedRun& run,
                        const std::filesystem::path& weights,
                        const engine::DataOptions& data);

/// Throws std::invalid_argument where the caller has chosen, by a flag or a file, a validation set
/// with samples of the weights' training, by the options that their run recorded as TOML in
/// `config` (empty: not known).
void require_unseen_validation(const OptionTable& table,
                               const std::string& config,
                               const engine::DataOptions& data);

/// A line where the weights from `path` were trained on samples of the validation set, which
/// another run's record may have chosen, such as that of a mean's first run; else empty.
std::string seen_validation_remark(const OptionTable& table,
                                   const run::Weights& weights,
                                   const std::filesystem::path& path,
                                   const engine::DataSets& sets,
                                   const engine::DataOptions& data);

/// Returns that line after require_unseen_validation() for weights that were trained on samples of
/// the same data set: for a mean, by the options of each of its runs; for weights without a record,
/// as an export's, by those of the run that they lie in.
std::string checked_validation(const OptionTable& table,
                               const run::Weights& weights,
                               const std::filesystem::path& path,
                               const engine::DataSets& sets,
                               const engine::DataOptions& data);

/// Returns a line with each option whose value differs from the continued run's, and both values;
/// empty if none differs. Options that the run takes over, or that cannot change its result, are
/// left out.
std::string differences_from(const OptionTable& table, const checkpoints::OpenedRun& continued);

/// A line where --config is the config.toml of a run folder and the output, which that file gives,
/// lies elsewhere, as after the folder was moved; else empty.
std::string moved_run_remark(const OptionTable& table, const std::filesystem::path& output);

/// The config.toml of the run, once make_setup() has filled in what the data decide.
checkpoints::RunConfig run_config(const run::CommonOptions& common, const OptionTable& table);

/// Chooses a network made for photographs, if they are the data and no network is named.
void choose_network_by_data(const OptionTable& table, engine::ModelOptions& model);

/// How photographs are prepared and by which network they are trained, where `asked` left it open
/// and the network decides; else empty.
std::string describe_choice(const std::optional<data::Recipe>& asked,
                            const run::CommonOptions& common);

/// Data of an adopted configuration that are gone.
struct MissingData {
  std::string option;  // data or test_data; empty: nothing is missing
  std::filesystem::path path;
};
MissingData missing_data(const OptionTable& table, const engine::DataOptions& data);

/// Throws std::invalid_argument for missing_data(), naming the option that says where it is now.
void require_data(const OptionTable& table, const engine::DataOptions& data);

/// Throws std::invalid_argument where a run's output would lie among the class folders of its data,
/// which nobody could open any more.
void require_outside_classes(const OptionTable& table, const run::CommonOptions& common);

/// Keeps a resumed run's own values of unset options among `fields`, such as values chosen by files
/// that may be gone.
void keep_values(OptionTable& table,
                 const std::filesystem::path& run,
                 std::initializer_list<const void*> fields);

/// Trains inside a run folder: writes manifest.json as running and then as finished, interrupted or
/// failed. Returns the exit code. A run that a signal stopped leaves a mark; when torchrun then
/// restarts the ranks, which it does for any code but 0, they end at once with 143.
int train_run(const distributed::Ranks& ranks,
              const engine::Setup& setup,
              const run::RunFolder& folder,
              const std::string& command,
              Console& console,
              const std::function<run::EpochEnd()>& train);

}  // namespace dimred::commands

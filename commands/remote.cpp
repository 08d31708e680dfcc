#include "commands/remote.h"

#include <algorithm>
#include <nlohmann/json.hpp>

#include "commands/remote_output.h"
#include "commands/run.h"
#include "commands/streams.h"
#include "data/shard_names.h"
#include "data/shard_source.h"
#include "launch/rank_info.h"
#include "stores/mirror.h"
#include "support/errors.h"
#include "support/scope_exit.h"
#include "support/url.h"

namespace dimred::commands {
namespace {

namespace fs = std::filesystem;

stores::StoreOptions& store_options() {
  static stores::StoreOptions options;
  return options;
}

/// Whether the command reads of --data the training set's record files and nothing else.
bool& reads_shards_alone() {
  static bool alone = false;
  return alone;
}

/// Also where standard output is the command's answer.
bool is_quiet(const std::string& command, const OptionTable& table) {
  const auto* row = table.row(OptionRole::quiet);
  return command == "predict" || command == "inspect" || command == "diff" ||
         (row != nullptr && row->value() == "true");
}

/// Unset: the command has no such option.
std::optional<bool> overwrites(const OptionTable& table) {
  const auto* row = table.row(OptionRole::overwrite);
  if (row == nullptr) return {};
  return row->value() == "true";
}

/// On rank 0, which writes it and sends it; the others only know its name.
fs::path locate_output(const std::string& command,
                       const stores::Url& url,
                       const OptionTable& table) {
  if (launch::discover().rank != 0) {
    stores::require_writable(url);
    return stores::cache_paths_of(url, "outputs", store_options()).content;
  }
  const bool run = command == "stage1" || command == "stage2";
  const auto kind = run                   ? OutputKind::run
                    : command == "export" ? OutputKind::added  // the next number
                                          : OutputKind::made;
  return open_output(url, kind, overwrites(table), is_quiet(command, table), store_options());
}

std::optional<fs::path> locate_row(const std::string& command,
                                   const Option& row,
                                   const OptionTable& table) {
  if (row.kind == OptionKind::text && !row.names_file) return {};
  try {
    const auto url = stores::parse_url(row.text);
    require(!row.of_this_machine, "[stores] needs a path on this machine, received {}", url);
    if (row.role == OptionRole::output) return locate_output(command, url, table);
    if (row.url_rule) row.url_rule(row.text, table);
    const bool is_data = row.role == OptionRole::data;
    const bool shards_alone = is_data && reads_shards_alone();
    const auto streaming = is_data ? streaming_of(table) : std::nullopt;
    std::string note;
    const auto [path, transfer] =
        streaming      ? open_streamed(url, *streaming, shards_alone, store_options(), note)
        : shards_alone ? stores::bring_chosen(url, data::training_shards, store_options())
                       : stores::bring(url, store_options());
    if (!is_quiet(command, table)) print(note);
    if (transfer.files > 0 && !is_quiet(command, table))
      print(formatted("downloaded {}: {}\n", url, moved_text(transfer)));
    return path;
  } catch (const std::invalid_argument& error) {
    throw std::invalid_argument(formatted("--{}: {}", row.name, error.what()));
  }
}

}  // namespace

void add_store_options(OptionTable& table, bool uploads, bool shards_alone) {
  reads_shards_alone() = shards_alone;
  stores::add_options(table, store_options(), uploads);
}

void check_store_options(const OptionTable& table) {
  const auto* output = table.row(OptionRole::output);
  const bool remote = output != nullptr && looks_like_url(output->text);
  require(remote || !store_options().upload_checkpoints,
          "[stores] --upload_checkpoints needs an --output that is a URL");
}

int with_remote_urls(const std::string& command, const std::function<int()>& work) {
  constexpr int interrupted = 130;
  constexpr int terminated = 143;
  const ScopeExit closing([] {
    data::forget_sources();
    stores::close_libraries();
  });
  set_locate([command](const Option& row, const OptionTable& table) {
    return locate_row(command, row, table);
  });
  const int code = work();
  const bool whole = code == exit_success || code == interrupted || code == terminated;
  return whole ? send_outputs(command, code, store_options()) : code;
}

struct CheckpointUploads::Impl {
  RemoteOutput* output;
  stores::Mirror mirror;
};

CheckpointUploads::CheckpointUploads(const fs::path& run) {
  auto* const output = output_at(run);
  if (!store_options().upload_checkpoints || output == nullptr) return;
  impl_.reset(new Impl{output, {run, output->url, store_options(), staging_of(*output)}});
}

CheckpointUploads::~CheckpointUploads() = default;

nlohmann::json CheckpointUploads::finish() {
  if (!impl_) return nullptr;
  impl_->mirror.stop();
  const auto done = impl_->mirror.report();
  impl_->output->memory = std::move(impl_->mirror.memory());
  return {{"url", stores::shown(impl_->output->url)},
          {"uploads", done.uploads},
          {"failures", done.failures},
          {"superseded", done.superseded},
          {"last_error", done.last_error}};
}

}  // namespace dimred::commands

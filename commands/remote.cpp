#include "commands/remote.h"

#include <algorithm>
#include <array>
#include <map>
#include <nlohmann/json.hpp>

#include "commands/run.h"
#include "launch/place.h"
#include "stores/attempts.h"
#include "stores/cache.h"
#include "stores/mirror.h"
#include "stores/upload.h"
#include "support/errors.h"
#include "support/human.h"
#include "support/locations.h"

namespace dimred::commands {
namespace {

namespace fs = std::filesystem;

struct Output {
  stores::Url url;
  stores::CachePlace place;
  bool quiet = false;
};

stores::StoreOptions& store_options() {
  static stores::StoreOptions options;
  return options;
}

/// Of this process; on rank 0 alone, which writes them.
std::vector<Output>& outputs() {
  static std::vector<Output> list;
  return list;
}

std::string moved_text(const stores::Transfer& transfer) {
  return concat(
      count_text(transfer.files),
      transfer.files == 1 ? " file, " : " files, ",
      bytes_text(transfer.bytes),
      transfer.present > 0 ? concat(", ", count_text(transfer.present), " there already") : "");
}

bool has_nothing(const fs::path& path) { return !fs::exists(path) || fs::is_empty(path); }

/// Also where standard output is the command's answer.
bool is_quiet(const std::string& command, const OptionTable& table) {
  return command == "predict" || command == "inspect" ||
         std::ranges::any_of(table.rows(), [](const Option& row) {
           return row.name == "quiet" && row.show() == "true";
         });
}

bool is_on(const OptionTable& table, std::string_view name) {
  return std::ranges::any_of(
      table.rows(), [&](const Option& row) { return row.name == name && row.show() == "true"; });
}

/// An earlier run there goes on here: after a preemption this may be another machine.
void take_up_run(const Output& output) {
  if (!has_nothing(output.place.content)) return;
  const auto& options = store_options();
  const auto store = stores::open_store(output.url, options);
  std::vector<stores::Found> found;
  try {
    found = stores::find(*store, output.url, options);
  } catch (const stores::Unfinished& none) {
    if (!output.quiet) print(concat(none.what(), "; this run begins anew\n"));
    return;
  }
  require(found.empty() || !found.front().digest.empty(),
          "stores",
          stores::shown(output.url),
          " holds something that is no run of ours; choose another --output");
  if (found.empty()) return;
  const auto done = stores::download(output.url, output.place.content, options);
  if (!output.quiet)
    print(concat("took up ", stores::shown(output.url), ": ", moved_text(done), '\n'));
}

void require_new(const Output& output, bool overwrite) {
  const auto& options = store_options();
  const auto store = stores::open_store(output.url, options);
  require(overwrite || stores::find(*store, output.url, options).empty(),
          "stores",
          stores::shown(output.url),
          " exists already; choose another --output or give --overwrite");
}

fs::path locate_output(const std::string& command,
                       const stores::Url& url,
                       const OptionTable& table) {
  require(!url.scheme.starts_with("http"),
          "stores",
          "http and https are for reading only, received ",
          stores::shown(url));
  require(!stores::is_pattern(url),
          "stores",
          "an output has no pattern, received ",
          stores::shown(url));
  const Output output{
      url, stores::place_of(url, "outputs", store_options()), is_quiet(command, table)};
  if (launch::discover().rank != 0) return output.place.content;
  const bool run = command == "stage1" || command == "stage2";
  if (!run) fs::remove_all(output.place.content.parent_path());
  if (run || command == "export") {  // an export is the next number beside those there
    take_up_run(output);
  } else {
    require_new(output, is_on(table, "overwrite"));
  }
  fs::create_directories(output.place.content.parent_path());
  outputs().push_back(output);
  return output.place.content;
}

/// Where a command writes, other than at --output, and where it only keeps things for itself.
constexpr std::array never_remote = {
    "gram", "data_cache", "store_cache", "store_hadoop", "find_learning_rate"};

std::optional<fs::path> locate_row(const std::string& command,
                                   const Option& row,
                                   const OptionTable& table) {
  if (row.kind == OptionKind::text && row.name != "model") return {};
  try {
    const auto url = stores::parse_url(row.text);
    require(std::ranges::find(never_remote, row.name) == never_remote.end(),
            "stores",
            "needs a path of this machine, received ",
            stores::shown(url));
    if (row.name == "output") return locate_output(command, url, table);
    stores::Transfer transfer;
    auto path = stores::bring(url, store_options(), &transfer);
    if (transfer.files > 0 && !is_quiet(command, table))
      print(concat("downloaded ", stores::shown(url), ": ", moved_text(transfer), '\n'));
    return path;
  } catch (const std::invalid_argument& error) {
    throw std::invalid_argument(concat("--", row.name, ": ", error.what()));
  }
}

/// A file's neighbours, such as pca_mat.json, go before it.
stores::Transfer send(const Output& output) {
  const auto& options = store_options();
  const auto& content = output.place.content;
  if (fs::is_directory(content)) return stores::upload(content, output.url, options);
  stores::Transfer all;
  for (const auto& name : stores::files_to_send(content.parent_path())) {
    if (name == content.filename()) continue;
    const auto one = stores::upload(
        content.parent_path() / name, stores::child(stores::parent(output.url), name), options);
    all.files += one.files;
    all.bytes += one.bytes;
  }
  const auto own = stores::upload(content, output.url, options);
  return {.files = all.files + own.files, .bytes = all.bytes + own.bytes};
}

int send_all(const std::string& command, int code) {
  for (const auto& output : outputs()) {
    if (!fs::exists(output.place.content)) continue;
    try {
      const auto done = send(output);
      if (!output.quiet)
        print(concat("uploaded ", stores::shown(output.url), ": ", moved_text(done), '\n'));
    } catch (const std::exception& error) {
      return report(
          "dimred " + command,
          concat(ending_of(error).text, "; the local copy is ", output.place.content.string()),
          exit_environment);
    }
  }
  return code;
}

}  // namespace

void add_store_options(OptionTable& table, bool uploads) {
  stores::add_options(table, store_options(), uploads);
}

void check_store_options(const OptionTable& table) {
  const bool remote = std::ranges::any_of(table.rows(), [](const Option& row) {
    return row.name == "output" && looks_like_url(row.text);
  });
  require(remote || !store_options().upload_checkpoints,
          "stores",
          "--upload_checkpoints needs an --output that is a URL");
}

int with_remote_places(const std::string& command, const std::function<int()>& work) {
  constexpr int interrupted = 130;
  constexpr int terminated = 143;
  struct Closing {
    ~Closing() { stores::close_libraries(); }
  } const closing;
  set_locate([command](const Option& row, const OptionTable& table) {
    return locate_row(command, row, table);
  });
  const int code = work();
  const bool whole = code == exit_success || code == interrupted || code == terminated;
  return whole ? send_all(command, code) : code;
}

struct CheckpointUploads::Impl {
  stores::Mirror mirror;
  std::string url;
};

CheckpointUploads::CheckpointUploads(const fs::path& run) {
  if (!store_options().upload_checkpoints) return;
  for (const auto& output : outputs()) {
    if (output.place.content != run) continue;
    impl_.reset(new Impl{{run, output.url, store_options(), output.place.entry / "staging"},
                         stores::shown(output.url)});
  }
}

CheckpointUploads::~CheckpointUploads() = default;

nlohmann::json CheckpointUploads::finish() {
  if (!impl_) return nullptr;
  impl_->mirror.stop();
  const auto done = impl_->mirror.report();
  return {{"url", impl_->url},
          {"uploads", done.uploads},
          {"failures", done.failures},
          {"superseded", done.superseded},
          {"last_error", done.last_error}};
}

}  // namespace dimred::commands

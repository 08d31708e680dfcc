#include "commands/remote_output.h"

#include <unistd.h>

#include <csignal>
#include <cstdio>
#include <list>
#include <set>

#include "checkpoints/artifact.h"
#include "commands/run.h"
#include "stores/attempts.h"
#include "stores/listing.h"
#include "stores/local_files.h"
#include "stores/mirror.h"
#include "support/atomic_file.h"
#include "support/counted.h"
#include "support/errors.h"
#include "support/formatted.h"
#include "support/keystroke.h"
#include "support/list_files.h"
#include "support/result_file.h"

namespace dimred::commands {
namespace {

namespace fs = std::filesystem;

std::list<RemoteOutput>& outputs() {
  static std::list<RemoteOutput> list;
  return list;
}

/// Work that the command has ended and not sent.
fs::path unsent_mark(const RemoteOutput& output) { return output.paths.entry / "unsent"; }

/// The remedy for such work, for its owner.
std::string remedy(const RemoteOutput& output) {
  const auto content = output.paths.content.string();
  if (output.kind == OutputKind::run)
    return formatted("the same command continues from the local copy {}", content);
  return formatted(
      "send {} with `dimred store put`, or remove {}", content, unsent_mark(output).string());
}

/// The newest checkpoint among an uploaded run's files; empty without.
std::string newest_of(const std::vector<stores::Found>& found) {
  std::string newest;
  for (const auto& one : found) {
    const fs::path name = one.item.name;
    if (*name.begin() != "checkpoints" || std::distance(name.begin(), name.end()) < 3) continue;
    const auto state = std::next(name.begin())->string();
    if (state.starts_with("state_") && (newest.empty() || natural_less(newest, state)))
      newest = state;
  }
  return newest;
}

std::vector<stores::Found> find_run(stores::Store& store, const RemoteOutput& output) {
  std::vector<stores::Found> found;
  try {
    found = stores::find(store, output.url);
  } catch (const stores::Unfinished& none) {
    if (!output.quiet) print(formatted("{}; no upload to this place has ended yet\n", none.what()));
  }
  require(found.empty() || !found.front().digest.empty(),
          "[stores] {} holds files, but no run of dimred; choose another --output",
          output.url);
  return found;
}

/// A folder that was not there before.
fs::path new_name(const fs::path& folder) {
  for (int number = 1;; ++number) {
    auto name = fs::path(formatted("{}.{}", folder.string(), number));
    if (!fs::exists(name)) return name;
  }
}

/// The run at the URL goes on here when it is newer than this machine's copy, which has perhaps not
/// seen the last starts. It becomes the local copy when it is whole.
void take_up_run(const RemoteOutput& output, const stores::StoreOptions& options) {
  const auto store = stores::open_store(output.url, options);
  const auto found = find_run(*store, output);
  const auto& content = output.paths.content;
  const bool nothing = checkpoints::holds_nothing(content);
  const auto here = stores::newest_state(content);
  const auto there = newest_of(found);
  const bool newer = !there.empty() && (here.empty() || natural_less(here, there));
  if (found.empty() || (!nothing && !newer)) return;
  const auto taking = output.paths.entry / "taking";
  const auto done = stores::download(*store, output.url, found, taking, /*overwrite=*/true);
  std::set<std::string> names;
  for (const auto& one : found) names.insert(one.item.name);
  for (const auto& name : stores::walk(taking).files)
    if (!names.contains(name)) fs::remove(taking / name);  // of a take-up that was cut
  std::string kept;
  if (nothing) {
    fs::remove_all(content);
  } else {
    const auto earlier = new_name(output.paths.entry / "earlier");
    fs::rename(content, earlier);
    kept = formatted("; the older copy on this machine is {}", earlier.string());
  }
  create_folders(content.parent_path());
  fs::rename(taking, content);
  sync_folder(content.parent_path());
  if (!output.quiet) print(formatted("continues {}: {}{}\n", output.url, moved_text(done), kept));
}

void require_new(const RemoteOutput& output,
                 bool may_overwrite,
                 const stores::StoreOptions& options) {
  const auto store = stores::open_store(output.url, options);
  require(stores::find(*store, output.url).empty(),
          "[stores] {} exists already; choose another --output{}",
          output.url,
          may_overwrite ? " or give --overwrite" : "");
}

/// A listing says what its folder's files are: one that is replaced alone would be a damaged one.
void require_unlisted(const RemoteOutput& output, const stores::StoreOptions& options) {
  const auto folder = stores::parent(output.url);
  const auto place = stores::child(folder, stores::complete_name);
  const auto store = stores::open_store(output.url, options);
  const auto item = stores::ask(*store, [&] { return store->stat(place); });
  if (!item) return;
  const auto listing = stores::read_if_listing(*store, place, *item);
  require(!listing || !listing->contains(stores::last_name(output.url)),
          "[stores] {} cannot be replaced alone, because {} lists this file and the others of the "
          "folder; send the whole folder again with `dimred store put`",
          output.url,
          place);
}

/// A file's neighbours, such as pca_mat.json, go before it.
stores::Transfer send(RemoteOutput& output, const stores::StoreOptions& options) {
  const auto& content = output.paths.content;
  const auto one = [&](const fs::path& local, const stores::Url& url) {
    return stores::upload(local, url, options, stores::Sending::run, &output.memory);
  };
  if (fs::is_directory(content)) return one(content, output.url);
  stores::Transfer all;
  const auto names = stores::files_to_send(content.parent_path(), stores::Sending::run).names;
  for (const auto& name : names) {
    if (name == content.filename()) continue;
    const auto done =
        one(content.parent_path() / name, stores::child(stores::parent(output.url), name));
    all.files += done.files;
    all.bytes += done.bytes;
  }
  const auto own = one(content, output.url);
  return {.files = all.files + own.files, .bytes = all.bytes + own.bytes};
}

// A stop signal during the last upload.
std::string stop_line;  // what is said then
long upload_began_ms = 0;

extern "C" void break_off(int signal) {
  if (is_same_keystroke(upload_began_ms)) return;
  [[maybe_unused]] const auto said = write(STDERR_FILENO, stop_line.data(), stop_line.size());
  _exit(signal == SIGINT ? 130 : 143);
}

/// From now on a stop signal ends this process, which is safe at each moment.
void end_at_signals(const RemoteOutput& output) {
  stop_line =
      formatted("stopped by a signal during the upload to {}; {}\n", output.url, remedy(output));
  upload_began_ms = monotonic_ms();
  for (const int signal : {SIGTERM, SIGUSR1, SIGHUP, SIGINT}) {
    if (std::signal(signal, break_off) == SIG_IGN) std::signal(signal, SIG_IGN);
  }
}

}  // namespace

std::string moved_text(const stores::Transfer& transfer) {
  return formatted(
      "{}, {}{}{}",
      counted(transfer.files, "file"),
      bytes_text(transfer.bytes),
      transfer.present > 0 ? formatted(", {} already there", count_text(transfer.present)) : "",
      transfer.left_out > 0 ? formatted(", {} not sent", count_text(transfer.left_out)) : "");
}

fs::path open_output(const stores::Url& url,
                     OutputKind kind,
                     std::optional<bool> overwrite,
                     bool quiet,
                     const stores::StoreOptions& options) {
  stores::require_writable(url);
  if (url.scheme == "file") require_outside_runs(stores::decoded_path(url), "--output");
  RemoteOutput output{.url = url,
                      .paths = stores::cache_paths_of(url, "outputs", options),
                      .kind = kind,
                      .quiet = quiet};
  const auto& content = output.paths.content;
  create_folders(output.paths.entry);
  output.lock = std::make_unique<FileLock>(output.paths.entry / "lock");
  require_environment(output.lock->try_take(LockKind::exclusive),
                      "[stores] another process is writing {} in {}; wait until this process ends",
                      url,
                      output.paths.entry.string());
  fs::remove_all(staging_of(output));  // a process that was killed may have left it
  if (kind == OutputKind::run) {
    take_up_run(output, options);
  } else {
    const bool replaces = overwrite.value_or(false);
    require(replaces || !fs::exists(unsent_mark(output)),
            "[stores] an earlier command on this machine wrote output for {}, which was never "
            "uploaded; {}",
            url,
            remedy(output));
    if (kind == OutputKind::made && !replaces) require_new(output, overwrite.has_value(), options);
    if (kind == OutputKind::made && replaces) require_unlisted(output, options);
    fs::remove_all(content.parent_path());  // sent, or never finished
    fs::remove(unsent_mark(output));
    if (kind == OutputKind::added) take_up_run(output, options);
  }
  create_folders(content.parent_path());
  outputs().push_back(std::move(output));
  return outputs().back().paths.content;
}

RemoteOutput* output_at(const fs::path& content) {
  for (auto& output : outputs())
    if (output.paths.content == content) return &output;
  return nullptr;
}

int send_outputs(const std::string& command, int code, const stores::StoreOptions& options) {
  for (auto& output : outputs()) {
    if (!fs::exists(output.paths.content)) continue;
    try {
      write_file_atomically(unsent_mark(output), stores::shown(output.url) + '\n');
      end_at_signals(output);
      if (!output.quiet) {
        print(formatted("uploading to {}\n", output.url));
        std::fflush(stdout);
      }
      const auto done = send(output, options);
      fs::remove(unsent_mark(output));
      if (!output.quiet) print(formatted("uploaded {}: {}\n", output.url, moved_text(done)));
    } catch (const std::exception& error) {
      return report("dimred " + command,
                    formatted("{}; the local copy is {}",
                              error_report_of(error).text,
                              output.paths.content.string()),
                    exit_environment);
    }
  }
  return code;
}

}  // namespace dimred::commands

#include "commands/store_command.h"

#include <algorithm>
#include <array>
#include <filesystem>
#include <set>
#include <vector>

#include "commands/remote_output.h"
#include "commands/run.h"
#include "options/options.h"
#include "stores/upload.h"
#include "support/errors.h"
#include "support/printable.h"
#include "support/result_file.h"
#include "support/suggestion.h"
#include "support/url.h"
#include "support/utf8.h"

namespace dimred::commands {
namespace {

namespace fs = std::filesystem;

struct CopyOptions {
  std::string from;
  std::string to;
  bool overwrite = false;
  stores::StoreOptions stores;
};

int list(const CopyOptions& options) {
  const auto url = stores::parse_url(options.from);
  const auto store = stores::open_store(url, options.stores);
  const auto found = stores::find(*store, url);
  require(!found.empty(), "[stores] found no file at {}", url);
  for (const auto& one : found) {
    const auto& name = one.item.name.empty() ? stores::last_name(url) : one.item.name;
    const auto size = formatted("{}", one.item.size);
    print(formatted("{}{}  {}\n",
                    std::string(14 - std::min<std::size_t>(13, size.size()), ' '),
                    size,
                    terminal_text(name, "")));
  }
  return exit_success;
}

int say(const char* what, const stores::Transfer& done) {
  print(formatted("{} {}\n", what, moved_text(done)));
  return exit_success;
}

/// Refuses a copy into a run. A copy of a whole run may go on, or be made again, where the run is.
void require_no_copy_into_run(const std::vector<stores::Found>& found, const fs::path& local) {
  require_outside_runs(local, "path");
  std::set<fs::path> places;
  for (const auto& one : found)
    places.insert(fs::weakly_canonical(fs::absolute(local / one.item.name)));
  for (const auto& place : places) {
    const auto run = owner_of(place);
    if (run.empty() ||
        (places.contains(run / "config.toml") && places.contains(run / "manifest.json")))
      continue;
    require_outside_runs(place, "path");
  }
}

int get(const CopyOptions& options) {
  const auto url = stores::parse_url(options.from);
  require(!looks_like_url(options.to),
          "[stores] dimred store get needs a path on this machine, received {}",
          printable(options.to));
  fs::path to = options.to;
  const bool slash = !to.has_filename();  // FOLDER/, which may not be there yet
  if (slash) to = to.parent_path();
  const auto store = stores::open_store(url, options.stores);
  const auto found = stores::find(*store, url);
  // A file into a folder, as cp does.
  const bool file = stores::is_single(found);
  const auto local = file && (slash || fs::is_directory(to)) ? to / stores::last_name(url) : to;
  if (file)
    require_outside_runs(local, "path");
  else
    require_no_copy_into_run(found, local);
  return say("downloaded", stores::download(*store, url, found, local, options.overwrite));
}

int put(const CopyOptions& options) {
  const auto url = stores::parse_url(options.to);
  stores::DigestMemory memory;
  if (url.scheme == "file") require_outside_runs(stores::decoded_path(url), "URL");
  stores::require_writable(url);
  require(fs::exists(options.from),
          "[stores] no such file or folder: {}",
          without_credentials(options.from));
  stores::require_outside_listings(options.from, url, options.stores);
  if (!options.overwrite) stores::require_no_other_file(options.from, url, options.stores, memory);
  return say("uploaded",
             stores::upload(options.from, url, options.stores, stores::Sending::all, &memory));
}

struct StoreTool {
  const char* name;
  const char* summary;
  const char* from;
  const char* to;  // null: no second place
  int (*run)(const CopyOptions& options);
};

constexpr std::array store_tools = {
    StoreTool{"get", "copy a remote file or folder to this machine", "URL", "file or folder", get},
    StoreTool{"put",
              "copy a file or folder of this machine to a remote URL",
              "file or folder",
              "URL",
              put},
    StoreTool{"ls", "list the files at a remote URL, with sizes in bytes", "URL", nullptr, list},
};

std::string store_help() {
  std::string text =
      "dimred store: get, put and list files of remote stores (hdfs, s3, gs, http, https, file)\n\n"
      "usage: dimred store get URL PATH | put PATH URL | ls URL\n\n";
  for (const auto& tool : store_tools)
    text += formatted(
        "  {}{}{}\n", tool.name, std::string(8 - std::string(tool.name).size(), ' '), tool.summary);
  return text + "\n  --help  this text; dimred store TOOL --help lists a tool's options\n";
}

int run_tool(const StoreTool& tool, const std::vector<std::string>& arguments) {
  CopyOptions options;
  OptionTable table(formatted("dimred store {}", tool.name), tool.summary);
  table.group("Store");
  table.add("from", &options.from, formatted("{} to read", tool.from)).positional();
  if (tool.to != nullptr) {
    table.add("to", &options.to, formatted("{} to write", tool.to)).positional();
  }
  if (tool.run == get || tool.run == put)
    table
        .add("overwrite",
             &options.overwrite,
             tool.run == get
                 ? "replace existing files"
                 : "replace an existing file at a file:// URL; other stores always replace files")
        .role(OptionRole::overwrite);
  stores::add_options(table, options.stores, /*uploads=*/false);
  if (printed_help(table, arguments)) return exit_success;
  require(!options.from.empty() && (tool.to == nullptr || !options.to.empty()),
          "[store] {} needs {}{}; see dimred store {} --help",
          tool.name,
          tool.from,
          tool.to == nullptr ? std::string() : formatted(" and {}", tool.to),
          tool.name);
  return tool.run(options);
}

}  // namespace

int store_command(const std::vector<std::string>& arguments) {
  require(!arguments.empty(), "[store] needs get, put or ls; see dimred store --help");
  const auto& name = arguments.front();
  if (name == "--help" || name == "-h") {
    print(store_help());
    return exit_success;
  }
  std::vector<std::string> names = {"--help"};
  for (const auto& tool : store_tools) {
    if (tool.name == name) return run_tool(tool, {arguments.begin() + 1, arguments.end()});
    names.emplace_back(tool.name);
  }
  throw std::invalid_argument(formatted("store {}: unknown tool{}",
                                        printable(name),
                                        suggestion(name, names, "; see dimred store --help")));
}

}  // namespace dimred::commands

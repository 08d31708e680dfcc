#include "checkpoints/snapshot_list.h"

#include <nlohmann/json.hpp>
#include <set>

#include "checkpoints/state.h"
#include "checkpoints/step_names.h"
#include "support/atomic_file.h"
#include "support/errors.h"
#include "support/file_limit.h"
#include "support/json.h"
#include "support/list_files.h"
#include "support/list_lines.h"
#include "support/text.h"

namespace dimred::checkpoints {
namespace {

namespace fs = std::filesystem;

/// The first few names: "missing: a.h5, b.h5, ... (9 in all)"; empty without any.
std::string some_of(const char* what, const std::vector<std::string>& names) {
  return names.empty() ? "" : formatted("{}: {}", what, first_of_all(names, 4));
}

std::string digest_or_none(const fs::path& path, OpenSnapshots* open) {
  try {
    InputFile file(path);
    auto digest = snapshot_digest(file);
    if (open != nullptr && open->size() < most_open_files()) open->emplace(path, std::move(file));
    return digest;
  } catch (const std::exception&) {  // empty, cut or overwritten
    return "";
  }
}

/// Whether a file has the name of a snapshot, and of the step that it holds; one that is damaged is
/// for its reader to refuse.
bool holds_its_step(const fs::path& file) {
  const auto name = file.filename().string();
  if (!snapshot_file_names.matches(name)) return false;
  try {
    return snapshot_file_names.name_of(read_snapshot_info(file).step) == name;
  } catch (const std::exception&) {
    return true;
  }
}

/// By its manifest, which says "running" while it does and after a kill.
bool has_ended(const fs::path& run) {
  try {
    const auto manifest = parse_json(InputFile(run / "manifest.json").text(JsonLimits{}.bytes), "");
    const auto outcome = manifest.value("outcome", "");
    return outcome == "finished" || outcome == "interrupted";
  } catch (const std::exception&) {
    return false;
  }
}

}  // namespace

fs::path run_above(const fs::path& folder) {
  auto real = fs::weakly_canonical(folder);
  if (!real.has_filename()) real = real.parent_path();
  return real.filename() == "snapshots" ? real.parent_path() : fs::path();
}

bool SnapshotList::Older::operator()(const std::string& a, const std::string& b) const {
  return natural_less(a, b);
}

void SnapshotList::add(const std::string& name, const std::string& digest) {
  digests[name] = digest;
  if (std::ssize(digests) > keep) digests.erase(digests.begin());
}

nlohmann::json to_json(const SnapshotList& list) {
  return {{"keep", list.keep}, {"digests", list.digests}};
}

SnapshotList snapshot_list_from_json(const nlohmann::json& json) {
  SnapshotList list{.keep = json.at("keep").get<std::int64_t>()};
  for (const auto& [name, digest] : json.at("digests").items())
    list.digests[name] = digest.get<std::string>();
  return list;
}

std::string difference(const SnapshotList& list, const fs::path& folder, OpenSnapshots* open) {
  std::vector<fs::path> files;
  if (fs::is_directory(folder)) files = list_files(folder, {".h5"});
  const auto newest = list.digests.empty() ? "" : list.digests.rbegin()->first;
  auto expected = list;
  std::set<std::string> there;
  std::vector<std::string> others, changed, missing;
  for (const auto& file : files) {
    const auto name = file.filename().string();
    there.insert(name);
    if (const auto ours = list.digests.find(name); ours != list.digests.end()) {
      if (ours->second != digest_or_none(file, open)) changed.push_back(name);
    } else if (!list.ended && natural_less(newest, name) && holds_its_step(file)) {
      expected.add(name, "");
    } else {
      others.push_back(name);
    }
  }
  for (const auto& [name, digest] : expected.digests)
    if (!there.contains(name)) missing.push_back(name);
  std::vector<std::string> parts{some_of("missing", missing),
                                 some_of("damaged or replaced", changed),
                                 some_of("from another run", others)};
  std::erase(parts, "");
  const auto count = expected.digests.size();
  if (parts.empty()) return "";
  return formatted("{} of {} snapshots in {} are unchanged, {}",
                   count - missing.size() - changed.size(),
                   count,
                   folder,
                   joined(parts, "; "));
}

std::optional<SnapshotList> list_of_run(const fs::path& folder) {
  const auto run = run_above(folder);
  if (run.empty()) return {};
  auto states = states_of(run);
  for (; !states.empty(); states.pop_back()) {
    try {
      const auto scalars = read_state_header(states.back()).at("scalars");
      if (!scalars.contains("snapshots")) return {};
      auto list = snapshot_list_from_json(scalars.at("snapshots"));
      list.ended = has_ended(run);
      return list;
    } catch (const std::exception&) {  // an older state may be whole
      continue;
    }
  }
  return {};
}

std::string difference_of_run(const fs::path& folder, OpenSnapshots* open) {
  const auto list = list_of_run(folder);
  return list ? difference(*list, folder, open) : std::string();
}

std::string unlisted(const fs::path& folder) {
  const auto run = run_above(folder);
  if (run.empty() || !fs::exists(run / "config.toml") || list_of_run(folder)) return "";
  return formatted(
      "{} has no saved state yet that lists the snapshots, so dimred cannot tell whether any is "
      "missing",
      run);
}

void require_snapshots_of_run(const fs::path& folder, OpenSnapshots* open) {
  const auto different = difference_of_run(folder, open);
  require_environment(
      different.empty(),
      "[snapshots] {}; put the run's own files back, or list the snapshots to use in a text file "
      "(.txt, one per line) and give this list instead of the folder",
      different);
}

namespace {

/// The path of a line below a list's folder: blanks at its ends are part of it where such a file is
/// there.
fs::path path_of_line(const fs::path& folder, const std::string& line) {
  const auto whole = folder / line;
  std::error_code none;
  return fs::exists(whole, none) ? whole : folder / trimmed(line);
}

}  // namespace

std::vector<fs::path> listed_paths(const fs::path& list) {
  constexpr std::int64_t most_bytes = std::int64_t{64} << 20;
  std::set<fs::path> seen;
  std::vector<fs::path> paths;
  for_each_list_line(list, most_bytes, [&](const std::string& line, const std::string& /*place*/) {
    paths.push_back(path_of_line(list.parent_path(), line));
    require(seen.insert(paths.back().lexically_normal()).second,
            "[snapshots] needs each snapshot once, but '{}' has this line twice: {}",
            list,
            line);
  });
  require(!paths.empty(), "[snapshots] needs a list of files, but '{}' is empty", list);
  return paths;
}

}  // namespace dimred::checkpoints

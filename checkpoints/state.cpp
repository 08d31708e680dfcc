#include "checkpoints/state.h"

#include <algorithm>
#include <bit>
#include <cctype>
#include <utility>

#include "checkpoints/finite.h"
#include "checkpoints/folder_commit.h"
#include "checkpoints/step_names.h"
#include "support/atomic_file.h"
#include "support/digest.h"
#include "support/errors.h"
#include "support/json.h"
#include "support/printable.h"

namespace dimred::checkpoints {
namespace {

namespace fs = std::filesystem;
using nlohmann::json;

static_assert(std::endian::native == std::endian::little, "raw files are little-endian");

constexpr std::string_view head_bytes = R"({"format": "dimred-state 1", "digest": ")";
constexpr std::size_t digest_length = 32;

bool is_plain_name(std::string_view name) {
  return !name.empty() && name.front() != '.' && std::ranges::all_of(name, [](unsigned char c) {
    return std::isalnum(c) != 0 || c == '_' || c == '-' || c == '.';
  });
}

template <class T>
constexpr std::string_view suffix = std::is_same_v<T, float> ? ".f32" : ".i64";

/// Writes <name>.f32 or <name>.i64; returns its row of state.json.
template <class T>
void write_vectors(const fs::path& folder,
                   const std::map<std::string, std::vector<T>>& vectors,
                   json& files) {
  for (const auto& [name, values] : vectors) {
    const ByteView bytes(values);
    const auto file_name = formatted("{}{}", name, suffix<T>);
    AtomicFile file(folder / file_name);
    file.reserve(std::ssize(bytes));
    file.append(bytes);
    file.commit();
    files[file_name] = {{"elements", values.size()}, {"digest", digest(bytes)}};
  }
}

/// The digest covers all bytes after its own; the bytes before it are fixed.
std::string header_text(const json& files, const json& scalars) {
  const auto body = json{{"files", files}, {"scalars", scalars}}.dump(1);
  const auto rest = formatted("\",{}\n", body.substr(1));
  return formatted("{}{}{}", head_bytes, digest(rest), rest);
}

void check_state(const State& state) {
  const auto check_name = [](const std::string& name) {
    require(is_plain_name(name),
            "[state] needs vector names of letters, digits, '_', '-', '.', received '{}'",
            name);
  };
  for (const auto& [name, values] : state.vectors) {
    check_name(name);
    require_finite(values, "state", name);
  }
  for (const auto& [name, values] : state.counters) check_name(name);
  require(state.scalars.is_object(),
          "[state] needs a JSON object of scalars, received {}",
          state.scalars.type_name());
}

[[noreturn]] void damaged(const fs::path& file, std::string_view why) {
  fail_environment("[state] '{}' is damaged: {}", file, why);
}

template <class T>
std::vector<T> read_vector(const fs::path& path, const json& row, const ColumnRanges& columns) {
  if (!fs::exists(path)) damaged(path, "the file is missing");
  const InputFile file(path);
  const auto elements = count_of(row, "elements");
  const bool fits = file.size() % std::int64_t{sizeof(T)} == 0 &&
                    elements == file.size() / std::int64_t{sizeof(T)};
  if (!fits)
    damaged(path, formatted("the file needs {} values, received {} bytes", elements, file.size()));
  auto values = read_columns<T>(file, 0, elements, columns);
  const auto found = columns ? file_digest(path) : digest(values);
  if (found != row.at("digest").get<std::string>()) {
    damaged(path, "the bytes do not match the digest in state.json");
  }
  if constexpr (std::is_same_v<T, float>) {
    const auto bad = first_not_finite(values);
    if (bad) damaged(path, formatted("value {} is not finite", index_in_vector(columns, *bad)));
  }
  return values;
}

void read_file_of(const fs::path& folder,
                  const std::string& name,
                  const json& row,
                  const VectorChoice& choose,
                  State& state) {
  require_environment(is_plain_name(name) && name.size() > 4,
                      "[state] '{}' needs plain file names, received '{}'",
                      folder / "state.json",
                      name);
  const auto stem = name.substr(0, name.size() - 4);
  if (name.ends_with(suffix<float>)) {
    const auto columns = choose ? choose(stem, state.scalars) : std::nullopt;
    state.vectors[stem] = read_vector<float>(folder / name, row, columns);
  } else if (name.ends_with(suffix<std::int64_t>)) {
    state.counters[stem] = read_vector<std::int64_t>(folder / name, row, std::nullopt);
  } else {
    damaged(folder / "state.json",
            formatted("the file list names a file of unknown type, '{}'", name));
  }
}

void remove_temporary_folders(const fs::path& folder) {
  std::vector<fs::path> stale;
  for (const auto& item : fs::directory_iterator(folder)) {
    const auto name = item.path().filename().string();
    if (name.starts_with(state_folder_names.prefix) && name.ends_with(".tmp"))
      stale.push_back(item.path());
  }
  for (const auto& path : stale) fs::remove_all(path);
}

std::int64_t step_of(const State& state) {
  const auto step = state.scalars.find("step");
  require(step != state.scalars.end() && step->is_number_integer(),
          "[StateStore] needs an integer scalar 'step'");
  return step->get<std::int64_t>();
}

}  // namespace

void write_state(const fs::path& folder, const State& state) {
  check_state(state);
  if (folder.has_parent_path()) create_folders(folder.parent_path());
  const fs::path temporary = folder.string() + ".tmp";
  fs::remove_all(temporary);
  try {
    create_folders(temporary);
    auto files = json::object();
    write_vectors(temporary, state.vectors, files);
    write_vectors(temporary, state.counters, files);
    write_file_atomically(temporary / "state.json", header_text(files, state.scalars));
    commit_folder(temporary, folder);
  } catch (...) {
    std::error_code ignored;  // the first failure is the one to report
    fs::remove_all(temporary, ignored);
    throw;
  }
}

json read_state_header(const fs::path& folder) {
  const InputFile file(folder / "state.json");
  const auto text = file.text(JsonLimits{}.bytes);
  const auto start = head_bytes.size() + digest_length;
  if (!text.starts_with(head_bytes) || text.size() < start)
    damaged(file.path(), "the digest is missing");
  const auto rest = std::string_view(text).substr(start);
  if (digest(rest) != text.substr(head_bytes.size(), digest_length))
    damaged(file.path(), "the text does not match the digest in the first line");
  auto header = parse_json(text, formatted("[state] '{}' is damaged", file.path()));
  if (!header.is_object() || !header.contains("files") || !header.contains("scalars")) {
    damaged(file.path(), "files or scalars are missing");
  }
  if (header["scalars"].contains("step")) count_of(header["scalars"], "step");
  return header;
}

std::int64_t count_of(const json& scalars, const std::string& name) {
  constexpr double most = 9007199254740992;  // 2^53
  const auto& value = scalars.at(name);
  const bool fits =
      value.is_number_integer() && value.get<double>() >= 0 && value.get<double>() <= most;
  require_environment(fits,
                      "[state] needs a whole number in [0, 2^53] as {}, received {}; the state is "
                      "damaged, or dimred did not write the state",
                      name,
                      printable(value.dump()));
  return value.get<std::int64_t>();
}

State read_state(const fs::path& folder, const VectorChoice& choose) {
  const auto header = read_state_header(folder);
  State state;
  state.scalars = header.at("scalars");
  try {
    for (const auto& [name, row] : header.at("files").items()) {
      read_file_of(folder, name, row, choose, state);
    }
  } catch (const json::exception& error) {
    damaged(folder / "state.json", error.what());
  }
  return state;
}

bool is_state(const fs::path& folder) {
  const auto path = folder / "state.json";
  return fs::is_regular_file(path) && InputFile(path).begins_with(head_bytes);
}

StateStore::StateStore(fs::path folder, std::int64_t keep)
    : folder_(std::move(folder)), keep_(keep) {
  require(keep >= 1, "[StateStore] needs keep >= 1, received {}", keep);
}

fs::path StateStore::save(const State& state) const {
  auto path = folder_ / state_folder_names.name_of(step_of(state));
  create_folder_in_existing(folder_);
  remove_temporary_folders(folder_);
  write_state(path, state);
  remove_oldest(folder_, state_folder_names, keep_, path);
  return path;
}

std::optional<State> StateStore::newest_valid(std::vector<std::string>* skipped,
                                              const VectorChoice& choose) const {
  for (auto paths = list(); !paths.empty(); paths.pop_back()) {
    try {
      return read_state(paths.back(), choose);
    } catch (const std::invalid_argument& error) {  // state.json is missing
      if (skipped != nullptr) skipped->emplace_back(error.what());
    } catch (const std::runtime_error& error) {
      if (skipped != nullptr) skipped->emplace_back(error.what());
    }
  }
  return std::nullopt;
}

std::vector<fs::path> StateStore::list() const { return list_steps(folder_, state_folder_names); }

std::vector<fs::path> states_of(const fs::path& run) {
  return list_steps(run / "checkpoints", state_folder_names);
}

}  // namespace dimred::checkpoints

#include "stores/cache.h"

#include <fcntl.h>
#include <sys/file.h>
#include <unistd.h>

#include <cerrno>
#include <chrono>
#include <cstring>
#include <fstream>
#include <nlohmann/json.hpp>
#include <sstream>

#include "stores/attempts.h"
#include "support/atomic_file.h"
#include "support/digest.h"
#include "support/errors.h"
#include "support/locations.h"
#include "support/retry.h"

namespace dimred::stores {
namespace {

namespace fs = std::filesystem;

double now() {
  return std::chrono::duration<double>(std::chrono::system_clock::now().time_since_epoch()).count();
}

std::string read_text(const fs::path& file) {
  std::ostringstream text;
  text << std::ifstream(file, std::ios::binary).rdbuf();
  return text.str();
}

/// flock of a file of the entry, which the kernel gives up however the process ends.
class Lock {
 public:
  explicit Lock(const fs::path& file) {
    descriptor_ = open(file.c_str(), O_RDWR | O_CREAT | O_CLOEXEC, 0666);
    require_environment(
        descriptor_ >= 0, "stores", "cannot open ", file.string(), ": ", std::strerror(errno));
    retrying([&] { return flock(descriptor_, LOCK_EX); });
  }
  ~Lock() { close(descriptor_); }
  Lock(const Lock&) = delete;
  Lock& operator=(const Lock&) = delete;

 private:
  int descriptor_ = -1;
};

/// A damaged or foreign file counts as none: everything is then looked at anew.
Records read_records(const fs::path& file) {
  Records records;
  const auto json = nlohmann::json::parse(read_text(file), nullptr, /*allow_exceptions=*/false);
  if (!json.is_object() || !json.contains("files")) return records;
  try {
    for (const auto& [name, seen] : json.at("files").items())
      records[name] = {seen.at("size"), seen.at("etag"), seen.at("stamp")};
  } catch (const nlohmann::json::exception&) {
    records.clear();
  }
  return records;
}

void write_records(const fs::path& file, const Url& url, const Records& records) {
  nlohmann::json files = nlohmann::json::object();
  for (const auto& [name, seen] : records)
    files[name] = {{"size", seen.size}, {"etag", seen.etag}, {"stamp", seen.stamp}};
  write_file_atomically(
      file,
      nlohmann::json{{"url", without_credentials(whole(url))}, {"files", files}}.dump(1) + "\n");
}

/// pca_mat.npy's singular values and digests are in pca_mat.json.
void bring_sidecar(const Url& url, const fs::path& content, const StoreOptions& options) {
  if (content.extension() != ".npy" || fs::is_directory(content)) return;
  auto beside = url;
  beside.path.replace(beside.path.size() - 4, 4, ".json");
  const auto file = fs::path(content).replace_extension(".json");
  const auto store = open_store(beside, options);
  bool there = false;
  with_attempts(options, [&] { there = store->stat(beside).has_value(); });
  if (there) {
    download(beside, file, options);
  } else {
    fs::remove(file);
  }
}

}  // namespace

CachePlace place_of(const Url& url, const std::string& kind, const StoreOptions& options) {
  const auto name = identity(url);
  const auto entry =
      cache_folder(options) / kind / digest(std::as_bytes(std::span(name))).substr(0, 16);
  return {entry, entry / "content" / last_name(url)};
}

fs::path bring(const Url& url, const StoreOptions& options, Transfer* transfer) {
  const auto [entry, content] = place_of(url, "inputs", options);
  create_folders(entry);
  const auto failure = entry / "failure.json";
  const auto began = now();
  const Lock lock(entry / "lock");
  // Whoever had the lock while we waited has tried for us.
  const auto failed =
      nlohmann::json::parse(read_text(failure), nullptr, /*allow_exceptions=*/false);
  if (failed.is_object() && failed.value("time", 0.) > began)
    throw StoreError(failed.value("text", std::string()), false);
  fs::remove(failure);
  auto records = read_records(entry / "entry.json");
  try {
    const auto local = is_pattern(url) ? content.parent_path() : content;
    const auto done = download(url, local, options, &records);
    bring_sidecar(url, content, options);
    if (transfer != nullptr) *transfer = done;
  } catch (const std::exception& error) {
    write_records(entry / "entry.json", url, records);
    write_file_atomically(failure, nlohmann::json{{"time", now()}, {"text", error.what()}}.dump());
    throw;
  }
  write_records(entry / "entry.json", url, records);
  return content;
}

}  // namespace dimred::stores

// S3 and Google Cloud Storage through Arrow's C++ file systems, which the pyarrow wheel carries. A
// library of its own, loaded when such a URL is met: everything else starts without Arrow.
#include <arrow/buffer.h>
#include <arrow/filesystem/gcsfs.h>
#include <arrow/filesystem/s3fs.h>
#include <arrow/io/interfaces.h>
#include <arrow/util/key_value_metadata.h>

#include <algorithm>
#include <chrono>
#include <fstream>
#include <tuple>

#include "stores/store.h"
#include "support/errors.h"

namespace dimred::stores {
namespace {

namespace fs = arrow::fs;

bool has(const std::string& text, std::initializer_list<const char*> words) {
  for (const auto* word : words)
    if (text.find(word) != std::string::npos) return true;
  return false;
}

/// What helps a person, and whether another attempt may.
[[noreturn]] void fail(const Url& url, const std::string& doing, const arrow::Status& status) {
  auto text = status.message();
  text = text.substr(0, text.find('\n'));
  const auto told = [&](const std::string& what) {
    return formatted("[stores] cannot {} {}: {}", doing, shown(url), what);
  };
  // A key may be named step_00015070, or "AccessDenied".
  const auto key = url.path.substr(std::min<std::size_t>(url.path.size(), 1));
  auto reason = text;
  for (auto at = reason.find(key); !key.empty() && at != std::string::npos; at = reason.find(key))
    reason.erase(at, key.size());
  if (has(reason, {"QuotaExceeded", "HTTP status 507", "InsufficientStorage", "EntityTooLarge"}))
    throw StoreError(told("its quota is full: " + text), false);
  if (has(reason,
          {"ACCESS_DENIED",
           "AccessDenied",
           "INVALID_ACCESS_KEY",
           "InvalidAccessKeyId",
           "SIGNATURE_DOES_NOT_MATCH",
           "SignatureDoesNotMatch",
           "HTTP status 403",
           "HTTP status 401",
           "UNRECOGNIZED_CLIENT",
           "PERMISSION_DENIED",
           "UNAUTHENTICATED",
           "Could not create a OAuth2 access token"}))
    throw Refused(told("the credentials are refused: " + text));
  if (has(reason, {"NO_SUCH_BUCKET", "NoSuchBucket", "does not exist"}) ||
      status.code() == arrow::StatusCode::Invalid)
    throw StoreError(told(text), false);
  throw StoreError(told(text), true);
}

template <class T>
T value_of(arrow::Result<T> result, const Url& url, const char* doing) {
  if (!result.ok()) fail(url, doing, result.status());
  return std::move(result).ValueUnsafe();
}

void done(const arrow::Status& status, const Url& url, const char* doing) {
  if (!status.ok()) fail(url, doing, status);
}

/// Arrow says all of a URL that it cannot read, password and all.
template <class T>
T parsed(arrow::Result<T> result, const Url& url) {
  if (!result.ok() && !url.user.empty())
    throw StoreError(formatted("[stores] cannot use {}: what is no letter or digit of a name, "
                               "password or query there is written %2F, %40, ...",
                               shown(url)),
                     false);
  return value_of(std::move(result), url, "use");
}

/// Ours retries; a library that does so as well would multiply the waits.
class NoRetry : public fs::S3RetryStrategy {
 public:
  bool ShouldRetry(const AWSErrorDetail&, int64_t) override { return false; }
  int64_t CalculateDelayBeforeNextRetry(const AWSErrorDetail&, int64_t) override { return 0; }
};

std::shared_ptr<fs::FileSystem> system_of(const Url& url, const StoreOptions& options) {
  const auto bucket = formatted("{}://{}{}/{}",
                                url.scheme,
                                url.user.empty() ? "" : url.user + '@',
                                url.authority,
                                url.query.empty() ? "" : '?' + url.query);
  if (url.scheme == "gs") {
    auto gcs = parsed(fs::GcsOptions::FromUri(bucket, nullptr), url);
    if (!gcs.retry_limit_seconds) gcs.retry_limit_seconds = options.timeout;
    return value_of(fs::GcsFileSystem::Make(gcs), url, "use");
  }
  done(fs::EnsureS3Initialized(), url, "use");
  auto s3 = parsed(fs::S3Options::FromUri(bucket, nullptr), url);
  s3.connect_timeout = options.timeout;
  s3.request_timeout = options.timeout;
  s3.retry_strategy = std::make_shared<NoRetry>();
  s3.background_writes = true;
  s3.allow_delayed_open = true;  // what is small goes in one request
  return value_of(fs::S3FileSystem::Make(s3), url, "use");
}

class ArrowStore : public Store {
 public:
  ArrowStore(const Url& url, const StoreOptions& options)
      : system_(system_of(url, options)), options_(options) {}

  std::optional<Item> stat(const Url& url) override {
    const auto info = value_of(system_->GetFileInfo(path_of(url)), url, "look at");
    if (info.type() != fs::FileType::File) return {};
    return item_of(info, "");
  }

  std::vector<Item> list(const Url& folder) override {
    fs::FileSelector selector;
    selector.base_dir = path_of(folder);
    selector.recursive = true;
    selector.allow_not_found = true;
    std::vector<Item> items;
    for (const auto& info : value_of(system_->GetFileInfo(selector), folder, "list")) {
      if (info.type() == fs::FileType::File)
        items.push_back(item_of(info, info.path().substr(selector.base_dir.size() + 1)));
    }
    std::ranges::sort(items, {}, &Item::name);
    return items;
  }

  void read(const Url& url, const Item& expected, std::int64_t offset, const Sink& sink) override {
    constexpr std::int64_t part = 8 << 20;
    const auto file = value_of(system_->OpenInputFile(path_of(url)), url, "read");
    for (auto at = offset; at < expected.size;) {
      const auto wanted = std::min(part, expected.size - at);
      const auto buffer = value_of(file->ReadAt(at, wanted), url, "read");
      if (buffer->size() == 0)
        throw StoreError(
            formatted("[stores] {} ended at byte {} of {}", shown(url), at, expected.size), true);
      sink({reinterpret_cast<const std::byte*>(buffer->data()),
            static_cast<std::size_t>(buffer->size())});
      at += buffer->size();
    }
  }

  void put(const std::filesystem::path& local, const Url& url) override {
    std::ifstream in(local, std::ios::binary);
    require_environment(in.good(), "[stores] cannot read {}", local.string());
    std::vector<char> part(8 << 20);
    // Not closed after a failure: an object appears with the close, and then as a whole.
    auto out = value_of(system_->OpenOutputStream(path_of(url)), url, "write");
    try {
      while (in.read(part.data(), std::ssize(part)), in.gcount() > 0) {
        if (is_stopped(options_)) throw Stopped(formatted("[stores] {} was stopped", shown(url)));
        done(out->Write(part.data(), in.gcount()), url, "write");
      }
      require_environment(in.eof(), "[stores] cannot read {}", local.string());
    } catch (...) {
      std::ignore = out->Abort();
      throw;
    }
    done(out->Close(), url, "write");
  }

  void remove(const Url& url) override {
    if (stat(url)) done(system_->DeleteFile(path_of(url)), url, "remove");
  }

 private:
  static std::string path_of(const Url& url) {
    return url.authority + (url.path == "/" ? "" : url.path);
  }

  static Item item_of(const fs::FileInfo& info, const std::string& name) {
    // A listing says it in finer parts than the file's own answer.
    using std::chrono::seconds;
    return {name,
            info.size(),
            formatted("{}", std::chrono::floor<seconds>(info.mtime()).time_since_epoch().count())};
  }

  std::shared_ptr<fs::FileSystem> system_;
  StoreOptions options_;
};

}  // namespace
}  // namespace dimred::stores

extern "C" __attribute__((visibility("default"))) dimred::stores::Store* dimred_arrow_store(
    const dimred::stores::Url& url, const dimred::stores::StoreOptions& options) {
  return new dimred::stores::ArrowStore(url, options);
}

extern "C" __attribute__((visibility("default"))) void dimred_arrow_finish() {
  std::ignore = arrow::fs::EnsureS3Finalized();
}

// S3 and Google Cloud Storage through Arrow's C++ file systems, which the pyarrow wheel carries. A
// library of its own, loaded when such a URL is met: everything else starts without Arrow.
#include <arrow/buffer.h>
#include <arrow/filesystem/gcsfs.h>
#include <arrow/filesystem/s3fs.h>
#include <arrow/io/interfaces.h>
#include <arrow/util/key_value_metadata.h>

#include <algorithm>
#include <chrono>
#include <cstdlib>
#include <mutex>
#include <regex>
#include <tuple>
#include <vector>

#include "stores/oss.h"
#include "stores/proxy.h"
#include "stores/store.h"
#include "support/atomic_file.h"

namespace dimred::stores {
namespace {

namespace objects = arrow::fs;

/// Throws an error that helps a person and says whether another attempt may succeed.
[[noreturn]] void fail(const Url& url, const char* doing, const arrow::Status& status) {
  const auto text = status.message().substr(0, status.message().find('\n'));
  // A key may be named step_00015070, or "AccessDenied".
  const auto key = url.path.substr(std::min<std::size_t>(url.path.size(), 1));
  auto reason = text;
  for (auto at = reason.find(key); !key.empty() && at != std::string::npos; at = reason.find(key))
    reason.erase(at, key.size());
  const auto says = [&](const char* words) { return regex_search(reason, std::regex(words)); };
  if (says("QuotaExceeded|HTTP status 507|InsufficientStorage|EntityTooLarge"))
    throw StoreError("cannot {} {}: the quota is full: {}", doing, url, text);
  if (says("ACCESS_DENIED|AccessDenied|INVALID_ACCESS_KEY|InvalidAccessKeyId|"
           "SIGNATURE_DOES_NOT_MATCH|SignatureDoesNotMatch|HTTP status 40[13]|UNRECOGNIZED_CLIENT|"
           "PERMISSION_DENIED|UNAUTHENTICATED|Could not create a OAuth2 access token"))
    throw Refused("cannot {} {}: the credentials are refused: {}", doing, url, text);
  if (status.IsInvalid() || says("NO_SUCH_BUCKET|NoSuchBucket|does not exist|InvalidArgument"))
    throw StoreError("cannot {} {}: {}", doing, url, text);
  throw Passing("cannot {} {}: {}", doing, url, text);
}

void done(const arrow::Status& status, const Url& url, const char* doing) {
  if (!status.ok()) fail(url, doing, status);
}

template <class T>
T value_of(arrow::Result<T> result, const Url& url, const char* doing) {
  done(result.status(), url, doing);
  return std::move(result).ValueUnsafe();
}

/// Arrow prints a URL it cannot read whole, password and all.
template <class T>
T parsed(arrow::Result<T> result, const Url& url) {
  if (result.status().IsInvalid() && !url.user.empty())
    throw StoreError(
        "cannot use {}: in a name, password or query, write every character other than letters and "
        "digits as %2F, %40, ...",
        url);
  return value_of(std::move(result), url, "use");
}

/// Ours retries; a library that does so as well would multiply the waits.
class NoRetry : public objects::S3RetryStrategy {
 public:
  bool ShouldRetry(const AWSErrorDetail&, int64_t) override { return false; }
  int64_t CalculateDelayBeforeNextRetry(const AWSErrorDetail&, int64_t) override { return 0; }
};

/// The key as Alibaba's own tools find it; without it, as for S3.
void take_oss_key(objects::S3Options& options) {
  const auto* const name = std::getenv("OSS_ACCESS_KEY_ID");
  const auto* const secret = std::getenv("OSS_ACCESS_KEY_SECRET");
  const auto* const token = std::getenv("OSS_SESSION_TOKEN");
  if (name != nullptr && secret != nullptr)
    options.ConfigureAccessKey(name, secret, token != nullptr ? token : "");
}

/// The proxy for an s3:// URL; empty: none. Without an endpoint, Arrow would ask Amazon for the
/// bucket's region, by no proxy.
std::string proxy_of_s3(const Url& url) {
  const auto named = [&](const std::string& key) {
    const auto at = ("&" + url.query).find("&" + key + "=");
    if (at == std::string::npos) return std::string();
    const auto value = url.query.substr(at + key.size() + 1);
    return percent_decoded(value.substr(0, value.find('&')));
  };
  auto endpoint = named("endpoint_override");
  for (const auto* const name : {"AWS_ENDPOINT_URL_S3", "AWS_ENDPOINT_URL"})
    if (const auto* const set = std::getenv(name); endpoint.empty() && set != nullptr)
      endpoint = set;
  const auto region = named("region");
  const bool amazon = endpoint.empty();
  if (amazon) endpoint = formatted("{}.s3.{}.amazonaws.com", url.authority, region);
  const auto scheme = named("scheme");
  const auto proxy = proxy_of(scheme.empty() ? "https" : scheme, endpoint);
  if (amazon && region.empty() && !proxy.empty())
    throw StoreError("cannot use {}: behind a proxy, the URL needs ?region=NAME", url);
  return proxy;
}

std::shared_ptr<objects::FileSystem> system_of(const Url& url, const StoreOptions& options) {
  const bool is_oss = url.scheme == "oss";
  const auto oss = is_oss ? oss_bucket(url, options) : OssBucket{.in_host = false};
  const auto as_read = is_oss ? as_s3(url, oss) : url;
  const auto bucket = whole({as_read.scheme, url.user, as_read.authority, "/", as_read.query});
  if (url.scheme == "gs") {
    auto gcs = parsed(objects::GcsOptions::FromUri(bucket, nullptr), url);
    if (!gcs.retry_limit_seconds) gcs.retry_limit_seconds = options.timeout;
    return value_of(objects::GcsFileSystem::Make(gcs), url, "use");
  }
  // Checksums behind the body, Amazon's default, are refused by OSS and others.
  ::setenv("AWS_REQUEST_CHECKSUM_CALCULATION", "when_required", /*overwrite=*/0);
  done(objects::EnsureS3Initialized(), url, "use");
  const auto proxy = proxy_of_s3(as_read);
  auto s3 = parsed(objects::S3Options::FromUri(bucket, nullptr), url);
  s3.force_virtual_addressing = oss.in_host;
  if (is_oss && url.user.empty()) take_oss_key(s3);
  if (!proxy.empty()) {
    const auto known = objects::S3ProxyOptions::FromUri(proxy);
    if (!known.ok())  // Arrow prints the password
      throw StoreError(
          "cannot use {}: the environment's proxy needs the form http://USER:PASSWORD@HOST:PORT, "
          "with characters other than letters and digits in a password as %2F, %40, ...",
          url);
    s3.proxy_options = *known;
  }
  s3.connect_timeout = options.timeout;
  s3.request_timeout = options.timeout;
  s3.retry_strategy = std::make_shared<NoRetry>();
  s3.background_writes = true;
  s3.allow_delayed_open = true;  // what is small goes in one request
  return value_of(objects::S3FileSystem::Make(s3), url, "use");
}

class ArrowStore : public Store {
 public:
  ArrowStore(const Url& url, const StoreOptions& options)
      : Store(options), system_(system_of(url, options)) {}

  std::optional<Item> stat(const Url& url) override {
    const auto info = value_of(system_->GetFileInfo(path_of(url)), url, "look at");
    if (info.type() != objects::FileType::File) return {};
    return item_of(info, "");
  }

  std::vector<Item> list(const Url& folder) override {
    objects::FileSelector selector;
    selector.base_dir = path_of(folder);
    selector.recursive = true;
    selector.allow_not_found = true;
    std::vector<Item> items;
    for (const auto& info : value_of(system_->GetFileInfo(selector), folder, "list")) {
      if (info.type() == objects::FileType::File)
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
      if (buffer->size() == 0) throw Passing("{} ended at byte {} of {}", url, at, expected.size);
      sink({reinterpret_cast<const std::byte*>(buffer->data()),
            static_cast<std::size_t>(buffer->size())});
      at += buffer->size();
    }
  }

  void put(const std::vector<Put>& files) override {
    for (const auto& [local, url] : files) put_one(local, url);
  }

  void remove(const std::vector<Url>& urls) override {
    for (const auto& url : urls)
      if (stat(url)) done(system_->DeleteFile(path_of(url)), url, "remove");
  }

 private:
  void put_one(const std::filesystem::path& local, const Url& url) {
    constexpr std::int64_t s3_limit = 10'000LL * (10 << 20);  // parts of Arrow's one size
    constexpr std::int64_t unsent = 64 << 20;  // Arrow queues its parts without a limit
    const InputFile file(local);
    if (url.scheme != "gs" && file.size() > s3_limit)
      throw StoreError("cannot write {}: Arrow uploads at most {} to {}://, received {}",
                       url,
                       bytes_text(s3_limit),
                       url.scheme,
                       bytes_text(file.size()));
    if (is_stopped(options())) throw StopRequested("{} was stopped", url);
    const auto out = value_of(system_->OpenOutputStream(path_of(url)), url, "write");
    try {
      std::int64_t written = 0;
      file.read(0, [&](std::span<const std::byte> bytes) {
        if (is_stopped(options())) throw StopRequested("{} was stopped", url);
        done(out->Write(bytes.data(), std::ssize(bytes)), url, "write");
        written += std::ssize(bytes);
        if (written % unsent == 0) done(out->Flush(), url, "write");
      });
      done(out->Flush(), url, "write");  // after a failed Close(), nothing can be aborted
      done(out->Close(), url, "write");
    } catch (...) {
      abandon(url, out);
      throw;
    }
  }

  /// An object appears with the close, and then as a whole. The destructor closes too, as does
  /// Abort() of Google's streams: a stream that cannot be aborted stays for good.
  static void abandon(const Url& url, const std::shared_ptr<arrow::io::OutputStream>& out) {
    static auto& left = *new std::vector<std::shared_ptr<arrow::io::OutputStream>>;
    static std::mutex mutex;
    if (url.scheme != "gs" && out->Abort().ok()) return;
    const std::scoped_lock lock(mutex);
    left.push_back(out);
  }

  static std::string path_of(const Url& url) {
    return (url.scheme == "oss" ? oss_name(url) : url.authority) +
           (url.path == "/" ? "" : url.path);
  }

  static Item item_of(const objects::FileInfo& info, const std::string& name) {
    // A listing says it in finer parts than the file's own answer.
    using std::chrono::seconds;
    return {name,
            info.size(),
            formatted("{}", std::chrono::floor<seconds>(info.mtime()).time_since_epoch().count())};
  }

  std::shared_ptr<objects::FileSystem> system_;
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

#pragma once

#include <cstddef>
#include <cstdint>
#include <filesystem>
#include <functional>
#include <memory>
#include <optional>
#include <span>
#include <stdexcept>
#include <string>
#include <string_view>
#include <vector>

#include "stores/options.h"
#include "stores/url.h"
#include "support/errors.h"

namespace dimred::stores {

/// A request that a store did not do and will not do at another attempt (credentials refused, quota
/// full, no such bucket); its text is "[stores] " and formatted(what, values...).
struct StoreError : std::runtime_error {
  template <class... Values>
  explicit StoreError(std::type_identity_t<FormatString<sizeof...(Values)>> what,
                      const Values&... values)
      : std::runtime_error(std::string(scope) + formatted(what, values...)) {}

  static constexpr std::string_view scope = "[stores] ";
};

/// Another attempt may succeed: nobody answers, too busy, cut off.
struct Passing : StoreError {
  using StoreError::StoreError;
};

/// A folder that an upload has begun to fill and not completed.
struct Unfinished : StoreError {
  using StoreError::StoreError;
};

/// Credentials that are missing or wrong; some servers say so of files that are not there, too.
struct Refused : StoreError {
  using StoreError::StoreError;
};

/// The remote file is not the one that was looked at, or not whole: another look may find it so.
struct Changed : StoreError {
  using StoreError::StoreError;
};

/// The operation was ended on request (StoreOptions::stop).
struct StopRequested : StoreError {
  using StoreError::StoreError;
};

struct Item {
  std::string name;       // of a listing: below the folder, "a/b.h5"
  std::int64_t size = 0;  // bytes
  std::string etag;       // changes with the content; empty where the store has none
};

/// An item and where it lies. Listed files carry the digest as etag.
struct Found {
  Item item;           // the name is the file's; empty for the one file that a URL names
  Url url;             // of the object
  std::string digest;  // of the listing; else empty
};

/// Receives the next bytes.
using Sink = std::function<void(std::span<const std::byte>)>;
/// One that keeps them all in `text`.
inline Sink into(std::string& text) {
  return [&text](std::span<const std::byte> bytes) {
    text.append(reinterpret_cast<const char*>(bytes.data()), bytes.size());
  };
}

/// A local file and its place there.
struct Put {
  std::filesystem::path local;
  Url url;
};

/// One kind of remote place. All throw StoreError, whose text names the URL without credentials;
/// none retries.
class Store {
 public:
  explicit Store(StoreOptions options) : options_(std::move(options)) {}
  virtual ~Store() = default;
  const StoreOptions& options() const { return options_; }
  /// The file there; nullopt when there is none (or a folder).
  virtual std::optional<Item> stat(const Url& url) = 0;
  /// Whether a folder can be listed at all (not over HTTP).
  virtual bool lists() const { return true; }
  /// All files below the folder, sorted by name, temporary ones too; empty when it is not there.
  virtual std::vector<Item> list(const Url& folder) = 0;
  /// Whether read() can begin elsewhere than at 0.
  virtual bool seeks() const { return true; }
  /// The bytes of `expected` from `offset` to the end; a store that knows fails when the file is
  /// another by now.
  virtual void read(const Url& url, const Item& expected, std::int64_t offset, const Sink&) = 0;
  /// One file after another by one request, the first from `offset` on; with seeks() just one.
  virtual void read_all(const std::vector<Found>& files, std::int64_t offset, const Sink& sink) {
    check(files.size() == 1, "a store that seeks reads file by file");
    auto expected = files.front().item;
    if (!files.front().digest.empty()) expected.etag.clear();  // a digest, which no store knows
    read(files.front().url, expected, offset, sink);
  }
  /// Each file appears there as a whole or not at all, in place of an earlier one.
  virtual void put(const std::vector<Put>& files) = 0;
  /// Whether an earlier one stays until then; else nothing is there for a moment.
  virtual bool replaces() const { return true; }
  /// The ending of a name until put() is done; empty: the file is not visible before.
  virtual std::string temporary_ending() const { return {}; }
  /// Throws std::invalid_argument for a place whose name cannot be there.
  virtual void require_name(const Url&) const {}
  /// How many names go in one request.
  virtual std::ptrdiff_t together() const { return 1; }
  /// Missing ones are no error.
  virtual void remove(const std::vector<Url>& urls) = 0;

 private:
  StoreOptions options_;
};

/// The store of the URL's scheme. Throws StoreError where its library or program is missing.
std::unique_ptr<Store> open_store(const Url& url, const StoreOptions& options);

/// To be called before main returns, when all stores are gone: a library's threads and statics end
/// in the wrong order otherwise. No store of that library can be opened after it.
void close_libraries();

// One each in a file of its own.
std::unique_ptr<Store> make_file_store(const StoreOptions& options);
std::unique_ptr<Store> make_http_store(const StoreOptions& options);
std::unique_ptr<Store> make_hadoop_store(const StoreOptions& options);

}  // namespace dimred::stores

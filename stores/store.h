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
#include <vector>

#include "stores/options.h"
#include "stores/url.h"

namespace dimred::stores {

/// A request that a store did not do. `passing`: another attempt may succeed (nobody answers, too
/// busy, cut off); else it will not (credentials refused, quota full, no such bucket).
class StoreError : public std::runtime_error {
 public:
  StoreError(const std::string& text, bool passing) : std::runtime_error(text), passing_(passing) {}
  bool passing() const { return passing_; }

 private:
  bool passing_;
};

/// A folder that an upload has begun to fill and not completed.
class Unfinished : public StoreError {
 public:
  explicit Unfinished(const std::string& text) : StoreError(text, /*passing=*/false) {}
};

/// Credentials that are missing or wrong; some servers say so of files that are not there, too.
class Refused : public StoreError {
 public:
  explicit Refused(const std::string& text) : StoreError(text, /*passing=*/false) {}
};

/// What is there is not what was looked at, or not whole: another look may find it so.
class Changed : public StoreError {
 public:
  explicit Changed(const std::string& text) : StoreError(text, /*passing=*/false) {}
};

/// Ended by whoever asked for it (StoreOptions::stop).
class Stopped : public StoreError {
 public:
  explicit Stopped(const std::string& text) : StoreError(text, /*passing=*/false) {}
};

struct Item {
  std::string name;       // of a listing: below the folder, "a/b.h5"
  std::int64_t size = 0;  // bytes
  std::string etag;       // changes with the content; empty where the store has none
};

/// Receives the next bytes.
using Sink = std::function<void(std::span<const std::byte>)>;

/// A local file and its place there.
struct Put {
  std::filesystem::path local;
  Url url;
};

/// One kind of remote place. All throw StoreError, whose text names the URL without credentials;
/// none retries.
class Store {
 public:
  virtual ~Store() = default;
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
  virtual void read(const Url& url,
                    const Item& expected,
                    std::int64_t offset,
                    const Sink& sink) = 0;
  /// The file `local` appears there as a whole or not at all, in place of an earlier one.
  virtual void put(const std::filesystem::path& local, const Url& url) = 0;
  /// Whether an earlier one stays until then; else nothing is there for a moment.
  virtual bool replaces() const { return true; }
  /// What a name ends in until put() is done; empty: nothing is to be seen of it.
  virtual std::string temporary_ending() const { return {}; }
  /// Throws std::invalid_argument for a place whose name cannot be there.
  virtual void require_name(const Url& url) const;
  /// How many names go in one request.
  virtual std::size_t together() const { return 1; }
  /// Several, each as put() does it. For stores to which a request is dear.
  virtual void put_all(const std::vector<Put>& files);
  /// Several whole files, one after another: sink(i, bytes of the i-th). Only without seeks().
  using EachSink = std::function<void(std::size_t file, std::span<const std::byte>)>;
  virtual void read_all(const std::vector<Url>& urls,
                        const std::vector<std::int64_t>& sizes,
                        const EachSink& sink);
  /// No error when there is none.
  virtual void remove(const Url& url) = 0;
  virtual void remove_all(const std::vector<Url>& urls);
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
std::unique_ptr<Store> make_arrow_store(const Url& url, const StoreOptions& options);

}  // namespace dimred::stores

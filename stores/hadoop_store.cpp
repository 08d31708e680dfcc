#include <algorithm>
#include <array>
#include <ctime>
#include <map>
#include <set>
#include <sstream>

#include "stores/hadoop_client.h"
#include "support/errors.h"
#include "support/option_values.h"

namespace dimred::stores {
namespace {

/// As the client's listings say it, in this machine's time zone as there.
std::string minute_of(std::time_t time) {
  std::tm local{};
  localtime_r(&time, &local);
  std::array<char, 32> text{};
  std::strftime(text.data(), text.size(), "%Y-%m-%d %H:%M", &local);
  return text.data();
}

constexpr std::time_t clocks_differ = 2;    // seconds
constexpr std::size_t most_together = 100;  // names on a command line

/// HDFS (or whatever else the site's Hadoop knows by that scheme). Each call starts a Java machine.
class HadoopStore : public Store {
 public:
  explicit HadoopStore(const StoreOptions& options) : client_(options), timeout_(options.timeout) {}

  std::optional<Item> stat(const Url& url) override {
    const auto text =
        client_.ask(url, "look at", {"-stat", "%F|%b|%Y", hadoop_address(url)}, timeout_);
    if (!text) return {};
    std::istringstream in(*text);
    std::string kind;
    std::string size;
    std::string time;
    std::getline(std::getline(std::getline(in, kind, '|'), size, '|'), time);
    if (kind == "directory") return {};
    try {
      return Item{"", parse_integer(size, at_least(0)), time};
    } catch (const std::invalid_argument&) {
      throw StoreError(
          formatted("[stores] the client says no size of {} but {}", shown(url), printable(*text)),
          false);
    }
  }

  std::vector<Item> list(const Url& folder) override {
    std::vector<Item> items;
    const auto looked = minute_of(std::time(nullptr) - clocks_differ);
    const auto text = client_.ask(folder, "list", {"-ls", "-R", hadoop_address(folder)}, timeout_);
    if (!text) return items;
    std::istringstream lines(*text);
    for (std::string line; std::getline(lines, line);) {
      auto item = parse_hadoop_line(line, folder);
      if (!item) continue;
      // It may be another within the same minute.
      if (item->etag >= looked) item->etag.clear();
      items.push_back(std::move(*item));
    }
    std::ranges::sort(items, {}, &Item::name);
    return items;
  }

  bool seeks() const override { return false; }

  void read(const Url& url, const Item& expected, std::int64_t offset, const Sink& sink) override {
    check(offset == 0, "hadoop fs -cat begins at the beginning");
    std::int64_t received = 0;
    const bool there =
        client_.run(url, "read", {"-cat", hadoop_address(url)}, timeout_, [&](auto bytes) {
          received += std::ssize(bytes);
          sink(bytes);
        });
    if (!there || received != expected.size)
      throw Changed(
          formatted("[stores] {} gave {} bytes of {}", shown(url), received, expected.size));
  }

  /// The client writes NAME._COPYING_, removes NAME and renames it. It says nothing meanwhile;
  /// Hadoop's own timeouts end it.
  void put(const std::filesystem::path& local, const Url& url) override {
    make_folders({hadoop_address(parent(url))}, url);
    client_.ask(url, "write", {"-put", "-f", local_address(local), hadoop_address(url)}, 0);
  }
  bool replaces() const override { return false; }
  std::string temporary_ending() const override { return "._COPYING_"; }
  void require_name(const Url& url) const override { hadoop_address(url); }
  std::size_t together() const override { return most_together; }

  /// Those that keep their names go folder by folder, in one call each.
  void put_all(const std::vector<Put>& files) override {
    if (files.empty()) return;
    std::map<std::string, std::vector<Put>> by_folder;
    std::vector<Put> apart;
    std::set<std::string> folders;
    for (const auto& file : files) {
      const auto folder = hadoop_address(parent(file.url));
      folders.insert(folder);
      const bool same = file.local.filename() == last_name(file.url);
      (same ? by_folder[folder] : apart).push_back(file);
    }
    make_folders(folders, files.front().url);
    for (const auto& [folder, list] : by_folder) {
      std::vector<std::string> words = {"-put", "-f"};
      for (const auto& file : list) words.push_back(local_address(file.local));
      words.push_back(folder);
      client_.ask(list.front().url, "write", words, 0);
    }
    for (const auto& file : apart) put(file.local, file.url);
  }

  /// `-cat` of several gives one after the other.
  void read_all(const std::vector<Url>& urls,
                const std::vector<std::int64_t>& sizes,
                const EachSink& sink) override {
    if (urls.empty()) return;
    std::vector<std::string> words = {"-cat"};
    for (const auto& url : urls) words.push_back(hadoop_address(url));
    std::size_t file = 0;
    std::int64_t left = sizes[file];
    const auto skip_full = [&] {
      while (left == 0 && ++file < urls.size()) left = sizes[file];
    };
    bool longer = false;
    const auto take = [&](std::span<const std::byte> bytes) {
      while (!bytes.empty() && !longer) {
        skip_full();
        longer = file >= urls.size();
        if (longer) return;
        const auto own = std::min<std::size_t>(bytes.size(), static_cast<std::size_t>(left));
        sink(file, bytes.first(own));
        bytes = bytes.subspan(own);
        left -= static_cast<std::int64_t>(own);
      }
    };
    const bool there = client_.run(urls.front(), "read", words, timeout_, take);
    skip_full();
    if (!there || longer || file < urls.size())
      throw Changed(formatted("[stores] {} is not of its length any more",
                              shown(urls[std::min(file, urls.size() - 1)])));
  }

  void remove(const Url& url) override { remove_all({url}); }

  void remove_all(const std::vector<Url>& urls) override {
    if (urls.empty()) return;
    std::vector<std::string> words = {"-rm", "-f", "-skipTrash"};
    for (const auto& url : urls) words.push_back(hadoop_address(url));
    client_.ask(urls.front(), "remove", words, timeout_);
  }

 private:
  /// At most as many as files in a request.
  void make_folders(std::set<std::string> folders, const Url& url) {
    for (const auto& folder : made_) folders.erase(folder);
    if (folders.empty()) return;
    std::vector<std::string> words = {"-mkdir", "-p"};
    words.insert(words.end(), folders.begin(), folders.end());
    client_.ask(url, "write", words, timeout_);
    made_.merge(folders);
  }

  /// The client takes what is to be put for a URI: a blank in it would be an error.
  static std::string local_address(const std::filesystem::path& path) {
    const auto absolute = std::filesystem::absolute(path).string();
    return whole(child(parse_url("file:///"), absolute.substr(1)));
  }

  HadoopClient client_;
  std::set<std::string> made_;
  double timeout_;
};

}  // namespace

std::unique_ptr<Store> make_hadoop_store(const StoreOptions& options) {
  return std::make_unique<HadoopStore>(options);
}

}  // namespace dimred::stores

#include <algorithm>
#include <cstdlib>
#include <map>
#include <set>
#include <sstream>

#include "stores/program.h"
#include "stores/store.h"
#include "support/errors.h"
#include "support/option_values.h"

namespace dimred::stores {
namespace {

bool has(const std::string& text, std::initializer_list<const char*> words) {
  return std::ranges::any_of(
      words, [&](const char* word) { return text.find(word) != std::string::npos; });
}

/// "put: Permission denied: ..." without the word before it; else the last line that says anything.
std::string reason_of(const std::string& errors, const std::string& command) {
  std::istringstream lines(errors);
  std::string last;
  for (std::string line; std::getline(lines, line);) {
    if (line.starts_with(command + ": ")) return line.substr(command.size() + 2);
    if (!line.empty() && !line.starts_with("\tat ")) last = line;
  }
  return last;
}

/// HDFS (or whatever else the site's Hadoop knows by that scheme) through the site's own client:
/// it has the configuration, the encryption and the tickets.
class HadoopStore : public Store {
 public:
  explicit HadoopStore(const StoreOptions& options) : timeout_(options.timeout) {
    const auto* const home = std::getenv("HADOOP_HOME");
    program_ = !options.hadoop.empty() ? options.hadoop.string()
               : home != nullptr       ? concat(home, "/bin/hadoop")
                                       : "hadoop";
  }

  std::optional<Item> stat(const Url& url) override {
    std::string text;
    if (!run(url, "look at", {"-stat", "%F|%b|%Y", address(url)}, timeout_, into(text))) return {};
    std::istringstream in(text);
    std::string kind;
    std::string size;
    std::string time;
    std::getline(std::getline(std::getline(in, kind, '|'), size, '|'), time);
    if (kind == "directory") return {};
    return Item{"", number(url, size), time};
  }

  /// Lines of `-ls -R`: rights, replication, owner, group, size, date, time, path.
  std::vector<Item> list(const Url& folder) override {
    std::string text;
    std::vector<Item> items;
    if (!run(folder, "list", {"-ls", "-R", address(folder)}, timeout_, into(text))) return items;
    const auto root = folder.path == "/" ? folder.path : folder.path + '/';
    std::istringstream lines(text);
    for (std::string line; std::getline(lines, line);) {
      std::istringstream in(line);
      std::string rights, replication, owner, group, size, date, time, path;
      in >> rights >> replication >> owner >> group >> size >> date >> time >> std::ws;
      std::getline(in, path);
      const auto at = path.find(root);
      if (rights.starts_with("d") || rights == "Found" || path.ends_with("._COPYING_")) continue;
      if (!in || at == std::string::npos)
        throw StoreError(concat("[stores] cannot read the client's line ", printable(line)), false);
      items.push_back(
          {path.substr(at + root.size()), number(folder, size), concat(date, ' ', time)});
    }
    std::ranges::sort(items, {}, &Item::name);
    return items;
  }

  bool seeks() const override { return false; }

  void read(const Url& url, const Item& expected, std::int64_t offset, const Sink& sink) override {
    check(offset == 0, "hadoop fs -cat begins at the beginning");
    std::int64_t received = 0;
    const bool there = run(url, "read", {"-cat", address(url)}, timeout_, [&](auto bytes) {
      received += std::ssize(bytes);
      sink(bytes);
    });
    if (!there || received != expected.size)
      throw StoreError(
          concat("[stores] ", shown(url), " gave ", received, " bytes of ", expected.size), true);
  }

  /// The client writes NAME._COPYING_ and renames it. It says nothing meanwhile; Hadoop's own
  /// timeouts end it.
  void put(const std::filesystem::path& local, const Url& url) override {
    make_folders({address(parent(url))}, url);
    std::string ignored;
    run(url, "write", {"-put", "-f", local_address(local), address(url)}, 0, into(ignored));
  }

  /// Those that keep their names go folder by folder, in one call each.
  void put_all(const std::vector<Put>& files) override {
    std::map<std::string, std::vector<Put>> together;  // by the folder there
    std::vector<Put> apart;
    for (const auto& file : files) {
      const bool same = file.local.filename() == last_name(file.url);
      if (same) {
        together[address(parent(file.url))].push_back(file);
      } else {
        apart.push_back(file);
      }
    }
    std::set<std::string> folders;
    for (const auto& file : files) folders.insert(address(parent(file.url)));
    if (files.empty()) return;
    make_folders(folders, files.front().url);
    for (const auto& [folder, list] : together) {
      for (std::size_t begin = 0; begin < list.size(); begin += most_together) {
        std::vector<std::string> words = {"-put", "-f"};
        const auto end = std::min(begin + most_together, list.size());
        for (auto i = begin; i < end; ++i) words.push_back(local_address(list[i].local));
        words.push_back(folder);
        std::string ignored;
        run(list[begin].url, "write", words, 0, into(ignored));
      }
    }
    for (const auto& file : apart) put(file.local, file.url);
  }

  /// `-cat` of several gives one after the other.
  void read_all(const std::vector<Url>& urls,
                const std::vector<std::int64_t>& sizes,
                const EachSink& sink) override {
    for (std::size_t begin = 0; begin < urls.size(); begin += most_together) {
      const auto end = std::min(begin + most_together, urls.size());
      std::vector<std::string> words = {"-cat"};
      for (auto i = begin; i < end; ++i) words.push_back(address(urls[i]));
      auto file = begin;
      std::int64_t left = sizes[file];
      bool longer = false;
      const bool there =
          run(urls[begin], "read", words, timeout_, [&](std::span<const std::byte> bytes) {
            while (!bytes.empty() && !longer) {
              while (left == 0 && ++file < end) left = sizes[file];
              longer = file >= end;
              if (longer) return;
              const auto own = std::min<std::size_t>(bytes.size(), static_cast<std::size_t>(left));
              sink(file, bytes.first(own));
              bytes = bytes.subspan(own);
              left -= static_cast<std::int64_t>(own);
            }
          });
      while (left == 0 && ++file < end) left = sizes[file];
      if (!there || longer || file < end)
        throw StoreError(concat("[stores] ",
                                shown(urls[std::min(file, end - 1)]),
                                " is not of its length any more"),
                         true);
    }
  }

  void remove(const Url& url) override { remove_all({url}); }

  void remove_all(const std::vector<Url>& urls) override {
    if (urls.empty()) return;
    std::vector<std::string> words = {"-rm", "-f", "-skipTrash"};
    for (const auto& url : urls) words.push_back(address(url));
    std::string ignored;
    run(urls.front(), "remove", words, timeout_, into(ignored));
  }

 private:
  static constexpr std::size_t most_together = 100;  // names on a command line

  void make_folders(std::set<std::string> folders, const Url& url) {
    for (const auto& folder : made_) folders.erase(folder);
    if (folders.empty()) return;
    std::vector<std::string> words = {"-mkdir", "-p"};
    words.insert(words.end(), folders.begin(), folders.end());
    std::string ignored;
    run(url, "write", words, timeout_, into(ignored));
    made_.merge(folders);
  }

  static Sink into(std::string& text) {
    return [&text](std::span<const std::byte> bytes) {
      text.append(reinterpret_cast<const char*>(bytes.data()), bytes.size());
    };
  }

  static std::int64_t number(const Url& url, const std::string& text) {
    try {
      return parse_integer(text, at_least(0));
    } catch (const std::invalid_argument&) {
      throw StoreError(
          concat("[stores] the client says no size of ", shown(url), " but ", printable(text)),
          false);
    }
  }

  /// The client takes what is to be put for a URI: a blank in it would be an error.
  static std::string local_address(const std::filesystem::path& path) {
    const auto absolute = std::filesystem::absolute(path).string();
    return whole(child(parse_url("file:///"), absolute.substr(1)));
  }

  /// The client takes these letters for a pattern.
  static std::string address(const Url& url) {
    require(url.path.find_first_of("*?[]{}\\") == std::string::npos && url.query.empty(),
            "stores",
            "a name in HDFS must not have any of *?[]{}\\, received ",
            shown(url));
    return identity(url);
  }

  /// False when there is no such file or folder.
  bool run(const Url& url,
           const char* doing,
           std::vector<std::string> words,
           double timeout,
           const Sink& sink) {
    const auto command = words.front().substr(1);
    words.insert(words.begin(), {program_, "fs"});
    ProgramEnd end;
    try {
      end = run_program(words, timeout, sink);
    } catch (const std::runtime_error& error) {
      if (std::string_view(error.what()).find("cannot run") == std::string_view::npos) throw;
      throw StoreError(concat("[stores] cannot ",
                              doing,
                              ' ',
                              shown(url),
                              ": needs the site's Hadoop client (--store_hadoop, $HADOOP_HOME or "
                              "$PATH), ",
                              std::string(error.what()).substr(9)),
                       false);
    }
    if (end.code == 0) return true;
    const auto reason = reason_of(end.errors, command);
    if (!end.silent && has(reason, {"No such file or directory"}) && command != "put") return false;
    const auto told = [&](const std::string& what, bool passing) {
      return StoreError(concat("[stores] cannot ", doing, ' ', shown(url), ": ", what), passing);
    };
    if (end.silent) throw told(concat("no answer for ", timeout, " s"), true);
    if (has(reason, {"quota", "Quota"})) throw told("its quota is full: " + reason, false);
    if (has(reason, {"Permission denied", "AccessControlException", "GSS", "SASL"}))
      throw told("the credentials are refused: " + reason, false);
    throw told(reason.empty() ? concat(program_, " ended with code ", end.code) : reason,
               has(reason,
                   {"onnection",
                    "onnect",
                    "imed out",
                    "imeout",
                    "safe mode",
                    "SafeMode",
                    "could only be replicated",
                    "All datanodes",
                    "Could not obtain block"}));
  }

  std::string program_;
  std::set<std::string> made_;  // folders: each call starts a Java machine
  double timeout_;
};

}  // namespace

std::unique_ptr<Store> make_hadoop_store(const StoreOptions& options) {
  return std::make_unique<HadoopStore>(options);
}

}  // namespace dimred::stores

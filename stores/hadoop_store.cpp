#include <algorithm>
#include <cstdlib>
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
    std::string ignored;
    if (const auto folder = address(parent(url)); made_ != folder) {
      run(url, "write", {"-mkdir", "-p", folder}, timeout_, into(ignored));
      made_ = folder;
    }
    run(url, "write", {"-put", "-f", local.string(), address(url)}, 0, into(ignored));
  }

  void remove(const Url& url) override {
    std::string ignored;
    run(url, "remove", {"-rm", "-f", "-skipTrash", address(url)}, timeout_, into(ignored));
  }

 private:
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
  std::string made_;  // the folder made last: each call starts a Java machine
  double timeout_;
};

}  // namespace

std::unique_ptr<Store> make_hadoop_store(const StoreOptions& options) {
  return std::make_unique<HadoopStore>(options);
}

}  // namespace dimred::stores

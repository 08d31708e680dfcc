#include "stores/hadoop_store.h"

#include <algorithm>
#include <array>
#include <cstdlib>
#include <ctime>
#include <map>
#include <regex>
#include <set>
#include <sstream>

#include "support/printable.h"
#include "support/program.h"

namespace dimred::stores {
namespace {

using Words = std::vector<std::string>;

struct Reason {
  std::string text;
  bool own = false;  // the command's: "put: Permission denied: ..." without the word before it
};

/// Else the last line that says anything, which may be a shell's or Java's.
Reason reason_of(const std::string& errors, const std::string& command) {
  std::istringstream lines(errors);
  Reason reason;
  for (std::string line; std::getline(lines, line);) {
    if (line.starts_with(command + ": ")) return {line.substr(command.size() + 2), true};
    if (!line.empty() && !line.starts_with("\tat ")) reason.text = line;
  }
  return reason;
}

/// Throws the error that the client's text means.
[[noreturn]] void fail_hadoop(const char* doing, const Url& url, const std::string& text) {
  // A file's name that says "quota" is no reason.
  const auto reason = std::regex_replace(text, std::regex(R"(\S*/\S*)"), "");
  const auto says = [&](const char* words) { return regex_search(reason, std::regex(words)); };
  const auto* const meaning = says("Permission denied|AccessControlException|GSS|SASL")
                                  ? "the credentials are refused: "
                              : says("[qQ]uota") ? "the quota is full: "
                                                 : "";
  if (*meaning == 0 && says("[cC]onnect|[tT]imed out|[tT]imeout|safe mode|SafeMode|could only be "
                            "replicated|All datanodes|Could not obtain block"))
    throw Passing("cannot {} {}: {}", doing, url, text);
  throw StoreError("cannot {} {}: {}{}", doing, url, meaning, text);
}

/// How the client is told of a remote file. Throws std::invalid_argument for letters that it takes
/// for a pattern.
std::string address_of(const Url& url) {
  require(url.path.find_first_of("*?[]{}\\") == std::string::npos && url.query.empty(),
          "[stores] a name in HDFS must not have any of *?[]{{}}\\, received {}",
          url);
  return identity(url);
}

/// The client takes what is to be put for a URI: a blank in it would be an error.
std::string local_address(const std::filesystem::path& path) {
  return whole(child(parse_url("file:///"), absolute(path).string().substr(1)));
}

/// As the client's listings say it, in this machine's time zone as there.
std::string minute_of(std::time_t time) {
  std::tm local{};
  localtime_r(&time, &local);
  std::array<char, 32> text{};
  std::strftime(text.data(), text.size(), "%Y-%m-%d %H:%M", &local);
  return text.data();
}

/// HDFS, or whatever else the site's Hadoop knows by that scheme, through its `hadoop fs`: that has
/// the configuration, the encryption and the tickets. Each call starts a Java machine.
class HadoopStore : public Store {
 public:
  explicit HadoopStore(const StoreOptions& options) : Store(options) {
    const auto* const home = std::getenv("HADOOP_HOME");
    program_ = !options.hadoop.empty() ? options.hadoop.string()
               : home != nullptr       ? formatted("{}/bin/hadoop", home)
                                       : "hadoop";
  }

  std::optional<Item> stat(const Url& url) override {
    const auto text = run(url, "look at", {"-stat", "%F|%b|%Y", address_of(url)});
    if (!text || text->starts_with("directory|")) return {};
    static const std::regex file(R"([^|]*\|(\d{1,18})\|(.*)\s*)");
    std::smatch part;
    if (!std::regex_match(*text, part, file))
      throw StoreError("the Hadoop client gave no size of {}, but {}", url, printable(*text));
    return Item{"", std::stoll(part[1]), part[2]};
  }

  std::vector<Item> list(const Url& folder) override {
    constexpr std::time_t clocks_differ = 2;  // seconds
    std::vector<Item> items;
    const auto looked = minute_of(std::time(nullptr) - clocks_differ);
    const auto text = run(folder, "list", {"-ls", "-R", address_of(folder)});
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
    read_all({{expected, url, ""}}, offset, sink);
  }

  /// `-cat` of several gives one after the other.
  void read_all(const std::vector<Found>& files, std::int64_t offset, const Sink& sink) override {
    check(offset == 0, "hadoop fs -cat begins at the beginning");
    Words words = {"-cat"};
    for (const auto& file : files) words.push_back(address_of(file.url));
    if (!run(files.front().url, "read", words, options().timeout, sink))
      throw Changed("the length of {} has changed", files.front().url);
  }

  /// The client writes NAME._COPYING_, removes NAME and renames it. It says nothing meanwhile;
  /// Hadoop's own timeouts end it. Files that keep their names go folder by folder, in one call
  /// each.
  void put(const std::vector<Put>& files) override {
    struct Call {
      Url url;
      Words words = {"-put", "-f"};
    };
    std::map<std::string, Call> calls;  // by where they put
    std::set<std::string> folders;
    for (const auto& [local, url] : files) {
      const auto folder = address_of(parent(url));
      if (!made_.contains(folder)) folders.insert(folder);
      const bool same = local.filename() == last_name(url);
      auto& call = calls.try_emplace(same ? folder : address_of(url), Call{url}).first->second;
      call.words.push_back(local_address(local));
    }
    if (!folders.empty()) {
      Words words = {"-mkdir", "-p"};
      words.insert(words.end(), folders.begin(), folders.end());
      run(files.front().url, "write", words);
      made_.merge(folders);
    }
    for (auto& [to, call] : calls) {
      call.words.push_back(to);
      run(call.url, "write", call.words, /*timeout=*/0, [](auto) {});
    }
  }

  bool replaces() const override { return false; }
  std::string temporary_ending() const override { return "._COPYING_"; }
  void require_name(const Url& url) const override { address_of(url); }
  std::ptrdiff_t together() const override { return 100; }  // names on a command line

  void remove(const std::vector<Url>& urls) override {
    Words words = {"-rm", "-f", "-skipTrash"};
    for (const auto& url : urls) words.push_back(address_of(url));
    run(urls.front(), "remove", words);
  }

 private:
  /// Runs `words` ("-cat", ...), whose output goes to `sink`; false when it says that there is no
  /// such file or folder. `timeout`: seconds without output; 0: Hadoop's own.
  bool run(const Url& url,
           const char* doing,
           const Words& words,
           double timeout,
           const Sink& sink) const {
    const auto command = words.front().substr(1);
    Words all = {program_, "fs"};
    all.insert(all.end(), words.begin(), words.end());
    const auto end = run_program(all, timeout, sink, options().stop);
    if (!end.started)
      throw StoreError(
          "cannot {} {}: needs the site's Hadoop client (--store_hadoop, $HADOOP_HOME or $PATH), "
          "{}",
          doing,
          url,
          end.errors);
    if (end.stopped) throw StopRequested("{} was stopped", url);
    if (end.silent) throw Passing("cannot {} {}: no answer for {} s", doing, url, timeout);
    if (end.code == 0) return true;
    const auto [text, own] = reason_of(end.errors, command);
    // A shell that misses java says so, too.
    if (own && command != "put" && text.ends_with("No such file or directory")) return false;
    if (!text.empty()) fail_hadoop(doing, url, text);
    fail_hadoop(doing, url, formatted("{} ended with code {}", program_, end.code));
  }

  /// Runs it as above and returns its output; nullopt when there is no such file or folder.
  std::optional<std::string> run(const Url& url, const char* doing, const Words& words) const {
    std::string text;
    if (!run(url, doing, words, options().timeout, into(text))) return {};
    return text;
  }

  std::string program_;
  std::set<std::string> made_;  // folders
};

}  // namespace

std::optional<Item> parse_hadoop_line(const std::string& line, const Url& folder) {
  // Rights, replication, owner and group, which may hold blanks; size, date, time, path. A file's
  // name may look like a date as well: the first one counts.
  static const std::regex file(
      R"(-.*? (\d{1,18}) (\d{4}-\d\d-\d\d \d\d:\d\d) (?:[^/]*://[^/]*)?(/.*))");
  static const std::regex passed(R"(d.*|Found \d+ items?|)");
  if (std::regex_match(line, passed)) return {};
  const auto root = folder.path.empty() || folder.path == "/" ? "/" : folder.path + '/';
  std::smatch part;
  if (!std::regex_match(line, part, file) || !part[3].str().starts_with(root))
    throw StoreError("cannot read this line of the Hadoop client: {}", printable(line));
  return Item{part[3].str().substr(root.size()), std::stoll(part[1]), part[2]};
}

std::unique_ptr<Store> make_hadoop_store(const StoreOptions& options) {
  return std::make_unique<HadoopStore>(options);
}

}  // namespace dimred::stores

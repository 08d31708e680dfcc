#include "stores/hadoop_client.h"

#include <algorithm>
#include <cstdlib>
#include <regex>
#include <sstream>

#include "support/errors.h"
#include "support/option_values.h"
#include "support/program.h"

namespace dimred::stores {
namespace {

bool has(const std::string& text, std::initializer_list<const char*> words) {
  return std::ranges::any_of(
      words, [&](const char* word) { return text.find(word) != std::string::npos; });
}

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

/// A file's name that says "quota" is no reason.
std::string without_paths(const std::string& text) {
  static const std::regex path(R"(\S*/\S*)");
  return std::regex_replace(text, path, "");
}

}  // namespace

HadoopClient::HadoopClient(const StoreOptions& options) : stop_(options.stop) {
  const auto* const home = std::getenv("HADOOP_HOME");
  program_ = !options.hadoop.empty() ? options.hadoop.string()
             : home != nullptr       ? formatted("{}/bin/hadoop", home)
                                     : "hadoop";
}

bool HadoopClient::run(const Url& url,
                       const char* doing,
                       std::vector<std::string> words,
                       double timeout,
                       const Sink& sink) const {
  const auto command = words.front().substr(1);
  words.insert(words.begin(), {program_, "fs"});
  const auto end = run_program(words, timeout, sink, stop_);
  if (!end.started) {
    throw StoreError(formatted("[stores] cannot {} {}: needs the site's Hadoop client "
                               "(--store_hadoop, $HADOOP_HOME or $PATH), {}",
                               doing,
                               shown(url),
                               end.errors),
                     false);
  }
  if (end.stopped) throw Stopped(formatted("[stores] {} was stopped", shown(url)));
  if (!end.silent && end.code == 0) return true;
  const auto told = [&](const std::string& what, bool passing) {
    return StoreError(formatted("[stores] cannot {} {}: {}", doing, shown(url), what), passing);
  };
  if (end.silent) throw told(formatted("no answer for {} s", timeout), true);
  const auto [text, own] = reason_of(end.errors, command);
  // A shell that misses java says so, too.
  if (own && command != "put" && text.ends_with("No such file or directory")) return false;
  const auto reason = without_paths(text);
  if (has(reason, {"Permission denied", "AccessControlException", "GSS", "SASL"}))
    throw told("the credentials are refused: " + text, false);
  if (has(reason, {"quota", "Quota"})) throw told("its quota is full: " + text, false);
  throw told(text.empty() ? formatted("{} ended with code {}", program_, end.code) : text,
             has(reason,
                 {"Connection",
                  "connection",
                  "Connect",
                  "connect",
                  "imed out",
                  "imeout",
                  "safe mode",
                  "SafeMode",
                  "could only be replicated",
                  "All datanodes",
                  "Could not obtain block"}));
}

std::optional<std::string> HadoopClient::ask(const Url& url,
                                             const char* doing,
                                             std::vector<std::string> words,
                                             double timeout) const {
  std::string text;
  const bool there =
      run(url, doing, std::move(words), timeout, [&](std::span<const std::byte> bytes) {
        text.append(reinterpret_cast<const char*>(bytes.data()), bytes.size());
      });
  if (!there) return {};
  return text;
}

std::string hadoop_address(const Url& url) {
  require(url.path.find_first_of("*?[]{}\\") == std::string::npos && url.query.empty(),
          "[stores] a name in HDFS must not have any of *?[]{{}}\\, received {}",
          shown(url));
  return identity(url);
}

std::optional<Item> parse_hadoop_line(const std::string& line, const Url& folder) {
  // Rights, replication, owner and group, which may hold blanks; size, date, time, path.
  static const std::regex passed(R"(^(d.*|Found \d+ items?|)$)");
  if (std::regex_match(line, passed)) return {};
  const auto unreadable = [&] {
    return StoreError(formatted("[stores] cannot read the client's line {}", printable(line)),
                      false);
  };
  // A file's name may look like a date as well: the first one counts.
  static const std::regex first_date(R"( \d+ \d{4}-\d\d-\d\d \d\d:\d\d )");
  std::smatch date;
  if (!std::regex_search(line, date, first_date)) throw unreadable();
  const auto until = static_cast<std::size_t>(date.position() + date.length());
  std::istringstream fields(date.str());
  std::string size;
  std::string day;
  std::string time;
  fields >> size >> day >> time;
  auto path = line.substr(until);
  if (const auto scheme = path.find("://"); scheme != std::string::npos && scheme < path.find('/'))
    path = path.substr(std::min(path.find('/', scheme + 3), path.size()));
  const auto root = folder.path.empty() || folder.path == "/" ? "/" : folder.path + '/';
  if (line.front() != '-' || !path.starts_with(root)) throw unreadable();
  return Item{
      path.substr(root.size()), parse_integer(size, at_least(0)), formatted("{} {}", day, time)};
}

}  // namespace dimred::stores

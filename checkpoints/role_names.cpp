#include "checkpoints/role_names.h"

#include <algorithm>
#include <array>
#include <iterator>
#include <map>
#include <regex>
#include <set>
#include <string_view>
#include <utility>

#include "checkpoints/file_names.h"
#include "support/text.h"

namespace dimred::checkpoints {
namespace {

namespace fs = std::filesystem;

/// A word of a name, and the role that the word means among other roles of its group.
struct RoleWord {
  std::string_view word, group, role;
};

constexpr std::array role_words{RoleWord{"actor", "agent", "policy"},
                                RoleWord{"policy", "agent", "policy"},
                                RoleWord{"critic", "agent", "value"},
                                RoleWord{"value", "agent", "value"},
                                RoleWord{"reward", "agent", "reward"},
                                RoleWord{"reference", "agent", "reference"},
                                RoleWord{"ref", "agent", "reference"},
                                RoleWord{"generator", "adversary", "generator"},
                                RoleWord{"gen", "adversary", "generator"},
                                RoleWord{"netg", "adversary", "generator"},
                                RoleWord{"discriminator", "adversary", "discriminator"},
                                RoleWord{"disc", "adversary", "discriminator"},
                                RoleWord{"netd", "adversary", "discriminator"},
                                RoleWord{"teacher", "distillation", "teacher"},
                                RoleWord{"student", "distillation", "student"},
                                RoleWord{"encoder", "coder", "encoder"},
                                RoleWord{"decoder", "coder", "decoder"},
                                RoleWord{"coarse", "field", "coarse"},
                                RoleWord{"fine", "field", "fine"},
                                RoleWord{"online", "lagged", "online"},
                                RoleWord{"target", "lagged", "target"},
                                RoleWord{"draft", "speculation", "draft"},
                                RoleWord{"target", "speculation", "target"},
                                RoleWord{"rgb", "stream", "rgb"},
                                RoleWord{"flow", "stream", "flow"},
                                RoleWord{"qf1", "twin", "1"},
                                RoleWord{"qf2", "twin", "2"}};

/// Words before "encoder" or "tower": they say what the encoder reads.
constexpr std::array<std::string_view, 16> encoded{"text",
                                                   "user",
                                                   "item",
                                                   "image",
                                                   "vision",
                                                   "visual",
                                                   "audio",
                                                   "speech",
                                                   "question",
                                                   "query",
                                                   "key",
                                                   "ctx",
                                                   "context",
                                                   "passage",
                                                   "document",
                                                   "doc"};

/// Directions of two generators, or of their discriminators: net_G_A and net_G_B, G_AB and G_BA,
/// netG_A2B and netG_B2A.
constexpr std::array<std::string_view, 6> directions{"ab", "ba", "a2b", "b2a", "a", "b"};

template <std::size_t size>
bool is_one_of(const std::array<std::string_view, size>& words, std::string_view word) {
  return std::ranges::find(words, word) != words.end();
}

/// Words of letters and digits, in lower case.
std::vector<std::string> words_in(const std::string& name) {
  static const std::regex network("net[-_]?([gd])(?![a-z0-9])");
  const auto text = std::regex_replace(name, network, "net$1");
  static const std::regex word("[^-_.=+, /]+");
  return {std::sregex_token_iterator(text.begin(), text.end(), word), std::sregex_token_iterator()};
}

/// The role of each group that a name mentions, and the word that says so.
using Roles = std::map<std::string, std::map<std::string, std::string>>;

/// Adds the role that a word has alone: policy, actor2.
void add_role(const std::string& word, const std::string& letters, Roles& roles) {
  for (const auto& [known, group, role] : role_words)
    if (known == word || known == letters) roles[std::string(group)].emplace(role, known);
}

/// Adds the role that a word has behind another: encoder behind text.
void add_role_behind(const std::string& before,
                     const std::string& word,
                     const std::string& letters,
                     Roles& roles) {
  const bool encodes = letters == "encoder" || letters == "tower";
  if (encodes && is_one_of(encoded, before))
    roles["encoded"].emplace(before, before + " " + letters);
  if (letters == "noise" && (before == "high" || before == "low"))
    roles["noise"].emplace(before, before + " " + letters);
  const auto is_side = [](const auto& text) { return text == "q" || text == "k"; };
  if (before == "encoder" && is_side(word)) roles["contrast"].emplace(word, before + " " + word);
  if (is_side(before) && word == "encoder") roles["contrast"].emplace(before, before + " " + word);
}

/// Adds the direction that a generator or discriminator has behind its name: AB of G_AB.
void add_direction(const std::string& before, const std::string& word, Roles& roles) {
  const bool network = before == "netg" || before == "netd";
  const bool letter = word.size() > 1 && (before == "g" || before == "d");
  if (is_one_of(directions, word) && (network || letter))
    roles["direction"].emplace(word, before + " " + word);
}

/// Adds the role of a name that is one letter, or q1 or q2 of twin critics, and a step: G_100,
/// G_step100, q1_100. Elsewhere such a letter may be any variant's.
void add_role_of_letter(const std::string& name, Roles& roles) {
  static const std::regex letter("([gd]|q[12])[-_](?:(?:step|iter|epoch)[-_=]?)?[0-9]+");
  const auto last = fs::path(name).filename().string();
  std::smatch found;
  if (!std::regex_match(last, found, letter)) return;
  const auto word = found[1].str();
  if (word.front() == 'q')
    roles["twin"].emplace(word.substr(1), word);
  else
    roles["adversary"].emplace(word == "g" ? "generator" : "discriminator", word);
}

Roles roles_in(const std::string& name) {
  Roles roles;
  add_role_of_letter(name, roles);
  std::string before;
  for (const auto& word : words_in(name)) {
    auto letters = word.substr(0, word.find_last_not_of("0123456789") + 1);
    add_role(word, letters, roles);
    add_role_behind(before, word, letters, roles);
    add_direction(before, word, roles);
    before = std::move(letters);
  }
  return roles;
}

/// The first word of a name whose role the other name lacks; empty: there is none.
std::string own_word(const std::map<std::string, std::string>& own,
                     const std::map<std::string, std::string>& others) {
  for (const auto& [role, word] : own)
    if (!others.contains(role)) return word;
  return {};
}

/// The words in which two names with roles of one group differ.
std::optional<std::pair<std::string, std::string>> differing_words(const Roles& a, const Roles& b) {
  for (const auto& [group, roles] : a) {
    const auto others = b.find(group);
    if (others == b.end()) continue;
    auto one = own_word(roles, others->second), other = own_word(others->second, roles);
    if (!one.empty() && !other.empty()) return std::pair(std::move(one), std::move(other));
  }
  return {};
}

/// The ends of the paths, behind the folders above all of them, in lower case and without
/// extensions of weights.
std::vector<std::string> differing_parts(const std::vector<fs::path>& members) {
  auto common = std::distance(members.front().begin(), members.front().end());
  for (const auto& member : members) {
    const auto [a, b] = std::ranges::mismatch(members.front(), member);
    common = std::min(common, std::distance(members.front().begin(), a));
  }
  std::vector<std::string> parts;
  for (const auto& member : members) {
    const auto whole = member.parent_path() / bare_name(member);
    fs::path part;
    for (auto at = std::next(whole.begin(), common); at != whole.end(); ++at) part /= *at;
    parts.push_back(lower_case(part.string()));
  }
  return parts;
}

/// A word of averaged weights, or of a network that follows another, with its decay: ema_0.9999.
const std::regex& follower() {
  static const std::regex word(
      "(^|[^a-z0-9])(ema|swa|polyak|averaged|target|teacher)(?:[-_]?0\\.[0-9]+)?(?![a-z0-9])");
  return word;
}

/// The name without such words and without those of a network, so that the raw weights of one step
/// are called the same.
std::string name_of_both(const std::string& name) {
  static const std::regex network(
      "(^|[^a-z0-9])(?:model|net|network|weights|params|raw)s?(?![a-z])");
  auto text = std::regex_replace(name, follower(), "$1");
  text = std::regex_replace(text, network, "$1");
  std::erase_if(text, [](char letter) {
    return std::string_view("-_. =/").find(letter) != std::string_view::npos;
  });
  return text;
}

/// Two members called alike but for such a word in one of them.
std::optional<RoleDifference> follower_beside(const std::vector<fs::path>& members,
                                              const std::vector<std::string>& names) {
  std::map<std::string, std::size_t> raw;
  for (std::size_t i = 0; i < names.size(); ++i)
    if (!std::regex_search(names[i], follower())) raw.emplace(name_of_both(names[i]), i);
  for (std::size_t i = 0; i < names.size(); ++i) {
    std::smatch word;
    if (!std::regex_search(names[i], word, follower())) continue;
    const auto both = name_of_both(names[i]);
    const auto found = raw.find(both);
    if (!both.empty() && found != raw.end())
      return RoleDifference{members[found->second], members[i], "", word[2].str()};
  }
  return {};
}

}  // namespace

std::optional<RoleDifference> different_roles(const std::vector<fs::path>& members) {
  if (members.size() < 2) return {};
  const auto names = differing_parts(members);
  std::vector<std::pair<Roles, std::size_t>> seen;  // one of each kind
  std::set<Roles> known;
  for (std::size_t i = 0; i < names.size(); ++i) {
    auto roles = roles_in(names[i]);
    if (roles.empty() || !known.insert(roles).second) continue;
    for (const auto& [others, place] : seen)
      if (auto words = differing_words(others, roles))
        return RoleDifference{members[place], members[i], words->first, words->second};
    seen.emplace_back(std::move(roles), i);
  }
  return follower_beside(members, names);
}

}  // namespace dimred::checkpoints

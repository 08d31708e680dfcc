#include "checkpoints/output.h"

#include <dlfcn.h>
#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <sys/wait.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <csignal>
#include <functional>
#include <map>
#include <nlohmann/json.hpp>
#include <stdexcept>
#include <utility>

#include "checkpoints/folder_commit.h"
#include "support/atomic_file.h"
#include "support/scope_exit.h"
#include "tests/tools/temporary_folder.h"

namespace {
struct Renaming {
  std::function<void()> before;  // what others do once
  bool supported = true;         // false: a file system without renameat2
} renaming;
}  // namespace

// In front of libc's, for two tests.
extern "C" int renameat2(
    int from_folder, const char* from, int to_folder, const char* to, unsigned flags) noexcept {
  static const auto real = reinterpret_cast<decltype(&renameat2)>(::dlsym(RTLD_NEXT, "renameat2"));
  if (const auto before = std::exchange(renaming.before, {})) before();
  if (renaming.supported || flags == 0) return real(from_folder, from, to_folder, to, flags);
  errno = EINVAL;
  return -1;
}

namespace dimred::checkpoints {
namespace {

namespace fs = std::filesystem;
using testing::AllOf;
using testing::ElementsAre;
using testing::HasSubstr;
using testing::IsEmpty;

/// All below a folder.
std::vector<std::string> entries(const fs::path& folder) {
  std::vector<std::string> names;
  for (const auto& item : fs::recursive_directory_iterator(folder))
    names.push_back(item.path().lexically_relative(folder).string());
  std::ranges::sort(names);
  return names;
}

class OutputTest : public testing::Test {
 protected:
  static OutputPlan plan_of(const std::vector<fs::path>& names = {"a", "01/b"}, char digit = '1') {
    return {.command = "merge", .digest = std::string(32, digit), .names = names};
  }
  OutputPlan plan_of_file(char digit = '1') const {
    return {.command = "convert",
            .digest = std::string(32, digit),
            .one_file = true,
            .names = {"one.safetensors"}};
  }
  std::string refusal(const OutputPlan& plan = plan_of()) const {
    return thrown<std::invalid_argument>([&] { Output(out, plan); });
  }

  TemporaryFolder folder;
  fs::path out = folder / "out", temporary = folder / "out.tmp";
};

TEST_F(OutputTest, OfAFolderAppearsWhole) {
  Output output(out, plan_of());
  EXPECT_EQ(output.path("01/b"), temporary / "01/b");
  EXPECT_THROW(output.path("c"), std::logic_error);
  write_file_atomically(output.path("a"), "A");
  write_file_atomically(output.path("01/b"), "B");
  EXPECT_FALSE(output.record("a"));
  output.add_record("a", {1, 2});
  EXPECT_EQ(*output.record("a"), (nlohmann::json{1, 2}));
  EXPECT_FALSE(fs::exists(out));
  output.commit();
  EXPECT_THAT(entries(folder.path()), ElementsAre("out", "out/01", "out/01/b", "out/a"));
  EXPECT_THAT(refusal(), HasSubstr("out' exists already"));
}

TEST_F(OutputTest, OfOneFileAppearsWhole) {
  out = folder / "one.safetensors";
  Output output(out, plan_of_file());
  write_file_atomically(output.path("one.safetensors"), "A");
  EXPECT_FALSE(fs::exists(out));
  output.commit();
  EXPECT_THAT(entries(folder.path()), ElementsAre("one.safetensors"));
  EXPECT_EQ(text_of_file(out), "A");
  EXPECT_THAT(refusal(plan_of_file()), HasSubstr("exists already"));
}

TEST_F(OutputTest, IsNamedWithASlashAtItsEnd) {
  Output(folder / "out/", plan_of()).commit();
  EXPECT_TRUE(fs::is_directory(out));
}

TEST_F(OutputTest, IsWrittenByOneProcess) {
  const Output output(out, plan_of());
  EXPECT_THAT(thrown<std::runtime_error>([&] { Output(out, plan_of()); }),
              HasSubstr("out.tmp' is in use by process"));
}

/// Runs `work` in a process that is killed when it calls what it is given for the `last`th time;
/// false: it ended before.
bool killed_at(int last, const std::function<void(const std::function<void()>&)>& work) {
  const auto child = ::fork();
  if (child == 0) {
    int moment = 0;
    work([&] {
      if (++moment == last) ::kill(::getpid(), SIGKILL);
    });
    ::_exit(0);
  }
  int status = 0;
  ::waitpid(child, &status, 0);
  return WIFSIGNALED(status) && WTERMSIG(status) == SIGKILL;
}

/// Two files with records, a moment behind each step.
void write_output(const fs::path& out,
                  const OutputPlan& plan,
                  const std::function<void()>& moment) {
  Output output(out, plan);
  moment();
  for (const auto& name : plan.names) {
    AtomicFile file(output.path(name));
    file.append(std::string(name.string() + " of " + plan.digest));
    moment();
    file.commit();
    moment();
    output.add_record(name, {1});
    moment();
  }
  output.commit();
  moment();
}

TEST_F(OutputTest, GoesOnOrBeginsAnewWhereverItWasKilled) {
  for (const bool one_file : {false, true}) {
    out = folder / (one_file ? "one.safetensors" : "out");
    const auto plan = one_file ? plan_of_file() : plan_of();
    // The later one has one name of the earlier one's, and another.
    const auto later = one_file ? plan_of_file('2') : plan_of({"a", "02/c"}, '2');
    for (const auto& next : {plan, later}) {
      int last = 1;
      for (; killed_at(last, [&](const auto& moment) { write_output(out, plan, moment); });
           ++last) {
        fs::remove_all(out);  // the last moment is behind its commit
        {
          Output output(out, next);
          const auto finished = output.record(plan.names.front()).has_value();
          EXPECT_EQ(finished, next.digest == plan.digest && last >= 4 && last < (one_file ? 5 : 8))
              << last;
          auto begun = entries(fs::path(out.string() + ".tmp"));
          std::erase(begun, "02");
          if (next.digest != plan.digest) {
            EXPECT_THAT(begun, ElementsAre(".lock", ".plan"));
          }
        }
        write_output(out, next, [] {});
        for (const auto& name : next.names)
          EXPECT_EQ(text_of_file(one_file ? out : out / name),
                    name.string() + " of " + next.digest);
        EXPECT_EQ(entries(folder.path()).size(), one_file ? 1U : 4U);
        fs::remove_all(out);
      }
      EXPECT_EQ(last, one_file ? 6 : 9);
      fs::remove_all(out);
    }
  }
}

// Moments within the constructor; and the plan of a merge of earlier revisions.
TEST_F(OutputTest, GoesOnFromWhatItLeftBeforeItsPlan) {
  const std::vector<std::map<std::string, std::string>> states{
      {},
      {{".lock", "1"}},
      {{".lock", "1"}, {".plan.tmp", "x"}},
      {{".lock", "1"}, {".plan", std::string(32, 'f')}, {"a", ""}, {".a.json", ""}, {"a.tmp", ""}}};
  for (const auto& state : states) {
    fs::create_directory(temporary);
    for (const auto& [name, text] : state) put_file(temporary / name, text);
    Output output(out, plan_of());
    EXPECT_THAT(entries(temporary), ElementsAre(".lock", ".plan", "01"));
    output.discard();
    EXPECT_THAT(entries(folder.path()), IsEmpty());
  }
}

TEST_F(OutputTest, RefusesWhatItHasNotWritten) {
  const std::map<std::string, std::function<void(const fs::path&)>> foreign{
      {".git", [](const fs::path& path) { fs::create_directories(path / "refs"); }},
      {".hidden", [](const fs::path& path) { put_file(path, "precious"); }},
      {"model.safetensors", [](const fs::path& path) { put_file(path, "precious"); }},
      {"a", [](const fs::path& path) { fs::create_symlink("elsewhere", path); }},
      {".a.json", [](const fs::path& path) { fs::create_directory(path); }},
      {"02", [](const fs::path& path) { fs::create_directory(path); }},
      {".plan", [](const fs::path& path) { put_file(path, "buy milk"); }},
      {"01/notes", [](const fs::path& path) { put_file(path, "precious"); }}};
  for (const bool planned : {true, false}) {
    for (const auto& [name, make] : foreign) {
      if (planned) Output(out, plan_of());
      fs::create_directories((temporary / name).parent_path());
      make(temporary / name);
      const auto before = entries(temporary);
      for (const char digit : {'1', '2'})
        EXPECT_THAT(refusal(plan_of({"a", "01/b"}, digit)),
                    AllOf(HasSubstr("out.tmp' for a temporary folder"),
                          HasSubstr(planned || name != "01/notes" ? name : "01")));
      EXPECT_EQ(entries(temporary), before) << name;
      fs::remove_all(temporary);
    }
  }
  put_file(temporary, "precious");
  EXPECT_THAT(refusal(), HasSubstr("out.tmp' for a temporary folder"));
  fs::remove(temporary);
  fs::create_symlink("nowhere", temporary);
  EXPECT_THAT(refusal(), HasSubstr("out.tmp' for a temporary folder"));
  EXPECT_THAT(thrown<std::invalid_argument>([&] { Output(folder / "none/out", plan_of()); }),
              HasSubstr("needs an existing folder for the output"));
}

TEST_F(OutputTest, TakesNoPlanThatLeadsOutOfItsFolder) {
  const auto victim = folder / "victim";
  put_file(victim, "precious");
  const auto head = "dimred merge " + std::string(32, 'f') + "\n";
  for (const auto& name : {std::string("../victim"),
                           victim.string(),
                           std::string("01/../../victim"),
                           std::string("01/"),
                           std::string()}) {
    fs::create_directory(temporary);
    put_file(temporary / ".plan", head + name + '\0');
    EXPECT_THAT(refusal(), HasSubstr("out.tmp' for a temporary folder")) << name;
    EXPECT_TRUE(fs::exists(victim)) << name;
    fs::remove_all(temporary);
  }
}

TEST_F(OutputTest, DiscardsNothingOfOthers) {
  Output output(out, plan_of());
  write_file_atomically(output.path("01/b"), "B");
  put_file(temporary / "01/notes", "precious");
  output.discard();
  EXPECT_THAT(entries(temporary), ElementsAre("01", "01/notes"));
}

TEST_F(OutputTest, KeepsWhatAnErrorOfTheDiskLeavesAndNotARefusedValue) {
  {
    Output output(out, plan_of());
    const auto write_and_throw = [&](const auto& error) {
      output.fill([&] {
        write_file_atomically(output.path("01/b"), "B");
        throw error;
      });
    };
    EXPECT_THROW(write_and_throw(std::runtime_error("full")), std::runtime_error);
    EXPECT_TRUE(fs::exists(temporary / "01/b"));
    EXPECT_THROW(write_and_throw(std::invalid_argument("not finite")), std::invalid_argument);
  }
  EXPECT_THAT(entries(folder.path()), IsEmpty());
}

// A shard of several folders has one record, beside its first file; earlier ones lay above.
TEST_F(OutputTest, KeepsRecordsOfOneNameApart) {
  const auto plan = plan_of({"01/a", "02/a"});
  {
    const Output output(out, plan);
    output.add_record("01/a", {1});
    output.add_record("02/a", {2});
    put_file(temporary / ".a.json", "[3]");
  }
  Output output(out, plan);
  EXPECT_EQ(*output.record("01/a"), nlohmann::json{1});
  EXPECT_EQ(*output.record("02/a"), nlohmann::json{2});
  output.commit();
  EXPECT_THAT(entries(out), ElementsAre("01", "02"));
}

TEST_F(OutputTest, ReplacesNothingThatHasAppearedMeanwhile) {
  const ScopeExit undo([] { renaming = {}; });
  for (const bool at_last : {false, true}) {
    Output output(out, plan_of());
    const auto appear = [&] { put_file(out, "precious"); };
    if (at_last)
      renaming.before = appear;
    else
      appear();
    EXPECT_THAT(thrown<std::invalid_argument>([&] { output.commit(); }),
                HasSubstr("out' meanwhile; the complete output of this command is in"));
    EXPECT_EQ(text_of_file(out), "precious");
    fs::remove(out);
  }
}

TEST(RenameToNew, ReplacesNothing) {
  const ScopeExit undo([] { renaming = {}; });
  for (const bool supported : {true, false}) {
    renaming.supported = supported;
    const TemporaryFolder folder;
    put_file(folder / "a", "a");
    fs::create_directory(folder / "folder");
    fs::create_symlink("nowhere", folder / "link");
    for (const auto* taken : {"folder", "link"})
      EXPECT_FALSE(rename_to_new(folder / "a", folder / taken));
    EXPECT_TRUE(rename_to_new(folder / "a", folder / "b"));
    EXPECT_FALSE(rename_to_new(folder / "folder", folder / "b"));
    EXPECT_EQ(text_of_file(folder / "b"), "a");
    EXPECT_EQ(folder.count(), 3U);
  }
}

TEST(RequireOutside, FollowsLinks) {
  const TemporaryFolder folder;
  fs::create_directories(folder / "run/snapshots");
  fs::create_directory_symlink("run", folder / "link");
  const auto refused = [&](const char* output, const char* source) {
    return thrown<std::invalid_argument>([&] {
             require_outside("merge", folder / output, folder / source);
           }) != "no exception";
  };
  EXPECT_TRUE(refused("run/snapshots/mean", "run"));
  EXPECT_TRUE(refused("run/snapshots/mean/", "run/snapshots/"));
  EXPECT_TRUE(refused("link/mean", "run"));
  EXPECT_TRUE(refused("run/mean", "link"));
  EXPECT_TRUE(refused("run/snapshots/../mean", "run"));
  EXPECT_FALSE(refused("run/mean", "run/snapshots"));
  EXPECT_FALSE(refused("run_mean", "run"));
  EXPECT_FALSE(refused("run", "run/snapshots"));
  EXPECT_FALSE(refused("run/mean", "none"));
}

TEST(RequireUnmatched, KnowsWhatAPatternWouldMatch) {
  const TemporaryFolder folder;
  fs::create_directories(folder / "run/step1");
  fs::create_directory_symlink("run", folder / "link");
  const auto refused = [&](const char* file, const char* source) {
    return thrown<std::invalid_argument>(
               [&] { require_unmatched("pca", folder / file, folder / source); }) != "no exception";
  };
  EXPECT_TRUE(refused("run/p.npy", "run/*"));
  EXPECT_TRUE(refused("run/step2", "run/step?/"));
  EXPECT_TRUE(refused("run/step2/", "run/step[12]"));
  EXPECT_TRUE(refused("run/b", "run/{a,b}"));
  EXPECT_TRUE(refused("link/p.npy", "run/*"));
  EXPECT_TRUE(refused("run/p.npy", "link/*"));
  EXPECT_TRUE(refused("run/mean/model.safetensors", "run/*/*.safetensors"));
  EXPECT_FALSE(refused("run/mean", "run/*/*.safetensors"));
  EXPECT_FALSE(refused("run/mean", "run/step*"));
  EXPECT_FALSE(refused("run/.hidden", "run/*"));
  EXPECT_FALSE(refused("p.npy", "run/*"));
  EXPECT_FALSE(refused("run/step2", "run/step1"));
}

}  // namespace
}  // namespace dimred::checkpoints

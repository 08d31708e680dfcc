#include "stores/mirror.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <sys/resource.h>

#include <algorithm>
#include <chrono>
#include <csignal>
#include <fstream>
#include <thread>

#include "tests/stores/memory_store.h"

namespace dimred::stores {
namespace {

namespace fs = std::filesystem;

/// A state appears as ours do: under a temporary name, then renamed.
void add_state(const fs::path& run, const std::string& name, const std::string& text) {
  const auto folder = run / "checkpoints" / (name + ".tmp");
  make_files(folder, {{"state.json", text}});
  fs::rename(folder, run / "checkpoints" / name);
}

template <class Holds>
bool mirror_becomes(Holds holds) {
  for (int i = 0; i < 1000 && !holds(); ++i)
    std::this_thread::sleep_for(std::chrono::milliseconds(10));
  return holds();
}

TEST(Mirror, StagesTheNewestStateAloneAndCopiesWhatGrows) {
  const TemporaryFolder folder;
  const auto run = folder / "run";
  make_files(run,
             {{"curve.csv", "1\n"}, {"config.toml", "x"}, {"snapshots/s.h5", "s"}, {".lock", ""}});
  add_state(run, "state_9", "old");
  add_state(run, "state_10", "new");
  make_files(run / "checkpoints" / "state_11.tmp", {{"half", ""}});
  EXPECT_EQ(newest_state(run), "state_10");
  ASSERT_TRUE(stage(run, newest_state(run), folder / "staging"));
  std::ofstream(run / "curve.csv", std::ios::app) << "2\n";
  fs::remove_all(run / "checkpoints");
  fs::remove_all(run / "snapshots");
  EXPECT_EQ(files_of(folder / "staging"),
            (Files{{"curve.csv", "1\n"},
                   {"config.toml", "x"},
                   {"snapshots/s.h5", "s"},
                   {"checkpoints/state_10/state.json", "new"}}));
  EXPECT_FALSE(stage(run, "state_10", folder / "staging"));
}

TEST(Mirror, WhatCannotBeCopiedIsNotPassedOver) {
  const TemporaryFolder folder;
  const auto run = folder / "run";
  make_files(run, {{"curve.csv", std::string(10000, 'x')}});
  add_state(run, "state_1", "1");
  rlimit before{};
  getrlimit(RLIMIT_FSIZE, &before);
  const rlimit full{4096, before.rlim_max};
  const auto handler = std::signal(SIGXFSZ, SIG_IGN);
  setrlimit(RLIMIT_FSIZE, &full);
  EXPECT_THROW(stage(run, "state_1", folder / "staging"), fs::filesystem_error);
  setrlimit(RLIMIT_FSIZE, &before);
  std::signal(SIGXFSZ, handler);
  EXPECT_TRUE(stage(run, "state_1", folder / "staging"));
}

TEST(Mirror, AnUploadUnderWayIsBrokenOff) {
  const TemporaryFolder folder;
  const auto client =
      folder.write("hadoop", "#!/bin/sh\ncase $2 in -ls) exit 0;; esac\nsleep 60\n");
  fs::permissions(client, fs::perms::owner_all);
  const auto run = folder / "run";
  fs::create_directories(run);
  auto options = quick();
  options.hadoop = client;
  Mirror mirror(run, parse_url("hdfs:///x"), options, folder / "staging");
  add_state(run, "state_1", "1");
  ASSERT_TRUE(mirror_becomes([&] { return fs::exists(folder / "staging/checkpoints/state_1"); }));
  std::this_thread::sleep_for(std::chrono::milliseconds(300));
  const auto began = std::chrono::steady_clock::now();
  mirror.stop();
  EXPECT_LT(std::chrono::steady_clock::now() - began, std::chrono::seconds(5));
  EXPECT_EQ(mirror.report().failures, 0);
}

TEST(Mirror, SendsEachNewestStateAndNotTheOneOfAnEarlierStart) {
  const TemporaryFolder folder;
  const auto run = folder / "run";
  const auto there = folder / "there";
  add_state(run, "state_1", "1");
  Mirror mirror(run, parse_url("file://" + there.string()), quick(), folder / "staging");
  std::this_thread::sleep_for(std::chrono::milliseconds(700));
  EXPECT_FALSE(fs::exists(there));
  add_state(run, "state_2", "2");
  ASSERT_TRUE(mirror_becomes([&] { return mirror.report().uploads == 1; }));
  add_state(run, "state_3", "3");
  add_state(run, "state_4", "4");
  ASSERT_TRUE(mirror_becomes([&] { return mirror.report().last_state == "state_4"; }));
  mirror.stop();
  EXPECT_EQ(files_of(there).count("checkpoints/state_4/state.json"), 1U);
  EXPECT_EQ(files_of(there).count("checkpoints/state_2/state.json"), 0U);
  EXPECT_EQ(mirror.report().uploads + mirror.report().superseded, 3);
  EXPECT_FALSE(fs::exists(folder / "staging"));
}

TEST(Mirror, AFolderOfStatesThatCannotBeReadIsAFailureToo) {
  const TemporaryFolder folder;
  const auto run = folder / "run";
  fs::create_directories(run);
  auto options = quick();
  options.first_wait = 0.1;
  testing::internal::CaptureStderr();
  Mirror mirror(
      run, parse_url("file://" + (folder / "there").string()), options, folder / "staging");
  fs::create_symlink("checkpoints", run / "checkpoints");
  ASSERT_TRUE(mirror_becomes([&] { return mirror.report().failures > 0; }));
  fs::remove(run / "checkpoints");
  add_state(run, "state_1", "1");
  ASSERT_TRUE(mirror_becomes([&] { return mirror.report().uploads == 1; }));
  mirror.stop();
  EXPECT_THAT(testing::internal::GetCapturedStderr(),
              testing::HasSubstr("dimred will try this upload again"));
}

TEST(Mirror, AFailureIsCountedAndTriedAgain) {
  const TemporaryFolder folder;
  const auto run = folder / "run";
  const auto there = folder.write("there", "a file where the folder shall be");
  fs::create_directories(run);
  auto options = quick();
  options.first_wait = 0.1;
  testing::internal::CaptureStderr();
  Mirror mirror(run, parse_url("file://" + there.string()), options, folder / "staging");
  add_state(run, "state_1", "1");
  ASSERT_TRUE(mirror_becomes([&] { return mirror.report().failures >= 2; }));
  EXPECT_THAT(mirror.report().last_error, testing::HasSubstr("cannot"));
  fs::remove(there);
  ASSERT_TRUE(mirror_becomes([&] { return mirror.report().uploads == 1; }));
  mirror.stop();
  const auto message = testing::internal::GetCapturedStderr();
  EXPECT_EQ(std::count(message.begin(), message.end(), '\n'), 1) << message;
  EXPECT_EQ(mirror.report().last_error, "");
  EXPECT_EQ(files_of(there).count("checkpoints/state_1/state.json"), 1U);
}

}  // namespace
}  // namespace dimred::stores

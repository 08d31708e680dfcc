#include "distributed/connect.h"

#include <arpa/inet.h>
#include <dlfcn.h>
#include <gtest/gtest.h>
#include <netdb.h>

#include <array>
#include <chrono>
#include <csignal>
#include <cstdlib>
#include <future>
#include <thread>
#include <torch/csrc/distributed/c10d/HashStore.hpp>
#include <torch/csrc/distributed/c10d/TCPStore.hpp>

#include "distributed/job_store.h"
#include "distributed/rendezvous.h"

namespace dimred::distributed {
namespace {

/// The store that torchrun's agent serves while its ranks come and go; ranks are threads here.
class Connect : public testing::Test {
 protected:
  // c10d's flight recorder wants one rank a process (so does tests/tools/gloo_ranks.h).
  static void SetUpTestSuite() { ::setenv("TORCH_FR_BUFFER_SIZE", "0", 0); }

  launch::RankInfo rank_info(int rank, int size = 2) const {
    return {.rank = rank,
            .size = size,
            .local_rank = rank,
            .local_size = size,
            .address = "127.0.0.1",
            .port = server_->getPort(),
            .agent_store = true,
            .run_id = "job"};
  }

  /// The sum of (rank + 1) over all ranks, or what connect threw.
  static std::string start(const launch::RankInfo& rank_info, double timeout) {
    launch::ConnectOptions options;
    options.rendezvous_timeout = timeout;
    try {
      auto ranks = connect(rank_info, options, /*on_gpu=*/false, [](const Failure&) {});
      std::vector<double> values{rank_info.rank + 1.0};
      ranks.communicator->sum(values);
      ranks.leave();
      return std::to_string(static_cast<int>(values[0]));
    } catch (const ReportedByRank0& error) {
      return std::string("said: ") + error.what();
    } catch (const std::exception& error) {
      return error.what();
    }
  }

  std::future<std::string> start_later(int rank, double timeout = 20) const {
    return std::async(std::launch::async, start, rank_info(rank), timeout);
  }

  /// A port that a server has just given up.
  static int free_port() { return c10d::TCPStore("127.0.0.1", serving()).getPort(); }

 private:
  static c10d::TCPStoreOptions serving() {
    c10d::TCPStoreOptions options;
    options.port = 0;
    options.isServer = true;
    options.waitWorkers = false;
    return options;
  }
  c10::intrusive_ptr<c10d::TCPStore> server_ =
      c10::make_intrusive<c10d::TCPStore>("127.0.0.1", serving());
};

TEST_F(Connect, RanksMeetAgainInTheStoreOfEarlierStarts) {
  for (int round = 0; round < 2; ++round) {
    auto other = start_later(1);
    EXPECT_EQ(start(rank_info(0), 20), "3");
    EXPECT_EQ(other.get(), "3");
    // In the next start one rank comes alone and dies: its keys must not stand for it later.
    EXPECT_NE(start(rank_info(0), 0.2).find("these ranks have not come"), std::string::npos);
  }
}

TEST_F(Connect, AWriteToADeadPeerIsAnErrorAndNoSignal) {
  const auto before = std::signal(SIGPIPE, SIG_DFL);
  auto first = start_later(0);
  EXPECT_EQ(start(rank_info(1), 20), "3");
  EXPECT_EQ(first.get(), "3");
  EXPECT_EQ(std::signal(SIGPIPE, before), SIG_IGN);
}

TEST_F(Connect, ARankThatCannotStartTellsTheOthers) {
  for (const int unable : {0, 1}) {
    auto other = start_later(1 - unable);
    decline(rank_info(unable), "no such checkpoint");
    const auto text = other.get();
    EXPECT_NE(text.find("rank " + std::to_string(unable) + ": no such checkpoint"),
              std::string::npos)
        << text;
    EXPECT_EQ(text.starts_with("said: "), unable == 0);  // else rank 0 itself has to say it
  }
  auto other = start_later(1);
  EXPECT_EQ(start(rank_info(0), 20), "3");  // the refusals were of another start
  EXPECT_EQ(other.get(), "3");
}

/// The text of rank 0 of two at the rendezvous.
std::string refusal(c10d::Store& store, bool agent_store) {
  try {
    return "started " + rendezvous(store, {.rank = 0, .size = 2, .agent_store = agent_store}, 20);
  } catch (const std::exception& error) {
    return error.what();
  }
}

/// Rank 1 declines right after rank 0 has looked whether it does.
class DeclinesMeanwhile : public c10d::HashStore {
 public:
  bool check(const std::vector<std::string>& keys) override {
    const bool known = HashStore::check(keys);
    const auto name = keys.at(0).rfind("decline");
    if (name != std::string::npos && !known) {
      set(keys[0], stored("rank 1: no such checkpoint"));
      set(keys[0].substr(0, name) + "ready1", stored("1"));
    }
    return known;
  }
};

TEST(Rendezvous, ARankThatDeclinesIsNotTakenForOneThatHasCome) {
  DeclinesMeanwhile store;
  EXPECT_EQ(refusal(store, /*agent_store=*/true), "rank 1: no such checkpoint");
}

/// The store is gone once rank 0 has said why nobody starts.
class FailsAfterTheOutcome : public DeclinesMeanwhile {
 public:
  void set(const std::string& key, const std::vector<std::uint8_t>& value) override {
    HashStore::set(key, value);
    said_ = said_ || key.ends_with("outcome");
  }
  bool check(const std::vector<std::string>& keys) override {
    if (said_) throw std::runtime_error("connection reset");
    return DeclinesMeanwhile::check(keys);
  }

 private:
  bool said_ = false;
};

TEST(Rendezvous, AStoreThatFailsDoesNotHideTheReason) {
  FailsAfterTheOutcome store;
  EXPECT_EQ(refusal(store, /*agent_store=*/false), "rank 1: no such checkpoint");
}

TEST(Addresses, StayNumbersForAllLibraries) {
  const auto in_library = reinterpret_cast<decltype(&getnameinfo)>(
      ::dlsym(RTLD_DEFAULT, "getnameinfo"));  // as the libraries of PyTorch find it
  sockaddr_in address{};
  address.sin_family = AF_INET;
  address.sin_addr.s_addr = htonl(INADDR_LOOPBACK);
  std::array<char, NI_MAXHOST> host{};
  ASSERT_EQ(in_library(reinterpret_cast<const sockaddr*>(&address),
                       sizeof(address),
                       host.data(),
                       host.size(),
                       nullptr,
                       0,
                       0),
            0);
  EXPECT_STREQ(host.data(), "127.0.0.1");  // and not localhost
}

TEST_F(Connect, ASecondRankThatCannotStartNeedNotSayItAgain) {
  const int port = free_port();
  const auto without_agent = [&](int rank) {
    auto info = rank_info(rank, 3);
    info.port = port;
    info.agent_store = false;  // rank 0 serves the store, and stays for the ranks that are late
    return info;
  };
  auto first = std::async(std::launch::async, start, without_agent(0), 20.0);
  EXPECT_TRUE(decline(without_agent(1), "no such checkpoint"));
  std::this_thread::sleep_for(std::chrono::seconds(1));
  EXPECT_TRUE(decline(without_agent(2), "no such checkpoint"));
  EXPECT_NE(first.get().find("rank 1: no such checkpoint"), std::string::npos);
}

TEST_F(Connect, AMarkOutlivesTheRanksInTheAgentsStore) {
  EXPECT_FALSE(was_stopped(rank_info(0)));
  mark_stopped(rank_info(0));
  EXPECT_TRUE(was_stopped(rank_info(0)));
  EXPECT_TRUE(was_stopped(rank_info(0, 1)));  // also one rank alone
  auto other_job = rank_info(0);
  other_job.run_id = "another";
  EXPECT_FALSE(was_stopped(other_job));
  auto by_hand = rank_info(0);
  by_hand.agent_store = false;
  EXPECT_FALSE(was_stopped(by_hand));
}

}  // namespace
}  // namespace dimred::distributed

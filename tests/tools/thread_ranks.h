#pragma once

#include <algorithm>
#include <condition_variable>
#include <cstring>
#include <exception>
#include <functional>
#include <mutex>
#include <span>
#include <stdexcept>
#include <string>
#include <thread>
#include <vector>

#include "support/agreement.h"

namespace dimred {

/// Ranks as threads of one process. A rank waiting for a returned or failed one gets an exception
/// instead of waiting for ever: the ranks did not call the same.
class ThreadRanks {
 public:
  explicit ThreadRanks(int size) : texts_(static_cast<std::size_t>(size)) {}

  /// Runs body(communicator) on every rank; what each threw, in rank order: "caller: ...", "bug:
  /// ...", "environment: ...", or nothing.
  std::vector<std::string> run(const std::function<void(Communicator&)>& body) {
    std::vector<std::string> outcomes(texts_.size());
    std::vector<std::jthread> threads;
    for (std::size_t i = 0; i < outcomes.size(); ++i) {
      threads.emplace_back([&, i] {
        Rank rank(*this, static_cast<int>(i));
        outcomes[i] = outcome_of([&] { body(rank); });
        leave();
      });
    }
    threads.clear();
    return outcomes;
  }

 private:
  template <class Call>
  static std::string outcome_of(Call call) {
    try {
      call();
    } catch (const std::invalid_argument& error) {
      return std::string("caller: ") + error.what();
    } catch (const std::logic_error& error) {
      return std::string("bug: ") + error.what();
    } catch (const std::exception& error) {
      return std::string("environment: ") + error.what();
    }
    return {};
  }

  class Rank final : public Communicator {
   public:
    Rank(ThreadRanks& all, int rank) : all_(all), rank_(rank) {}
    int rank() const override { return rank_; }
    int size() const override { return static_cast<int>(all_.texts_.size()); }
    void sum(std::span<double> values) override {
      const std::string own(reinterpret_cast<const char*>(values.data()), values.size_bytes());
      std::vector<double> part(values.size());
      std::fill(values.begin(), values.end(), 0.0);
      for (const std::string& text : gather(own)) {  // in rank order: the same bits
        if (text.size() != own.size()) throw std::logic_error("sums of different sizes");
        std::memcpy(part.data(), text.data(), text.size());
        for (std::size_t i = 0; i < part.size(); ++i) values[i] += part[i];
      }
    }
    std::vector<std::string> gather(const std::string& text) override {
      return all_.exchange(rank_, text);
    }

   private:
    ThreadRanks& all_;
    int rank_;
  };

  std::vector<std::string> exchange(int rank, const std::string& text) {
    texts_[static_cast<std::size_t>(rank)] = text;
    wait_for_all();
    const std::vector<std::string> all = texts_;
    wait_for_all();  // nobody writes the next text before all have read this one
    return all;
  }

  void wait_for_all() {
    std::unique_lock lock(mutex_);
    const std::size_t round = rounds_;
    if (++waiting_ == texts_.size()) {
      waiting_ = 0;
      ++rounds_;
      changed_.notify_all();
      return;
    }
    changed_.wait(lock, [&] { return rounds_ != round || left_; });
    if (rounds_ == round) throw std::logic_error("another rank has left");
  }

  void leave() {
    const std::lock_guard lock(mutex_);
    left_ = true;
    changed_.notify_all();
  }

  std::mutex mutex_;
  std::condition_variable changed_;
  std::vector<std::string> texts_;  // by rank
  std::size_t waiting_ = 0;
  std::size_t rounds_ = 0;
  bool left_ = false;
};

}  // namespace dimred

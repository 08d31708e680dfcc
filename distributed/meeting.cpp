#include "distributed/meeting.h"

#include <unistd.h>

#include <chrono>
#include <random>
#include <thread>
#include <torch/csrc/distributed/c10d/Store.hpp>
#include <utility>
#include <vector>

#include "distributed/job_store.h"
#include "support/errors.h"
#include "support/stopwatch.h"

namespace dimred::distributed {
namespace {

using std::chrono::milliseconds;

constexpr auto word_key = "word";        // of rank 0: start, or why not
constexpr auto refusal_key = "refusal";  // of a rank that cannot start

std::string hello_key(int rank) { return formatted("hello{}", rank); }
std::string welcome_key(const std::string& name) { return formatted("welcome/{}", name); }
std::string here_key(const std::string& start, int rank) {
  return formatted("{}/here{}", start, rank);
}
std::string key_of(const std::string& start, const char* key) {
  return formatted("{}/{}", start, key);
}

/// A name that no other process and no earlier start has.
std::string fresh_name() {
  std::random_device random;
  return formatted("{}-{}-{}", ::getpid(), random(), random());
}

std::string text_at(c10d::Store& store, const std::string& key) {
  const auto bytes = store.get(key);
  return {bytes.begin(), bytes.end()};
}

/// Rank 0's side of the meeting. Every rank says hello under a fresh name, and the answer under
/// that name is the start that rank 0 stands for. So what earlier starts left in the store is never
/// taken for a rank that has come, however torchrun's agents count their restarts.
class Meeting {
 public:
  Meeting(c10d::Store& store, const launch::Place& place)
      : store_(store), place_(place), welcomed_(static_cast<std::size_t>(place.size)) {}

  const std::string& start() const { return start_; }

  void welcome_all() {
    for (int rank = 1; rank < place_.size; ++rank) {
      if (!store_.check({hello_key(rank)})) continue;
      auto name = text_at(store_, hello_key(rank));
      auto& known = welcomed_[static_cast<std::size_t>(rank)];
      if (name == known) continue;
      store_.set(welcome_key(name), stored(start_));
      known = std::move(name);
    }
  }

  /// Names the ranks that have not come; empty when all have.
  std::string missing() const {
    constexpr int named = 8;
    std::string names;
    int count = 0;
    for (int rank = 1; rank < place_.size; ++rank) {
      if (store_.check({here_key(start_, rank)})) continue;
      if (++count <= named) names += formatted("{}{}", names.empty() ? "" : ", ", rank);
    }
    return count > named ? formatted("{} and {} more", names, count - named) : names;
  }

  std::string refusal() const {
    const auto key = key_of(start_, refusal_key);
    return store_.check({key}) ? text_at(store_, key) : "";
  }

  void say(const std::string& word) { store_.set(key_of(start_, word_key), stored(word)); }

 private:
  c10d::Store& store_;
  const launch::Place& place_;
  std::string start_ = fresh_name();
  std::vector<std::string> welcomed_;
};

constexpr auto start_word = "start";

/// Why not all ranks start together; empty when they do.
std::string reason_not_to_start(Meeting& meeting, const launch::Place& place, double timeout) {
  const Stopwatch waiting;
  while (true) {
    meeting.welcome_all();
    if (auto refusal = meeting.refusal(); !refusal.empty()) return refusal;
    const auto missing = meeting.missing();
    if (missing.empty()) return {};
    if (waiting.seconds() > timeout) {
      return formatted("[distributed] of {} ranks these have not come to {} within {} s: {}",
                       place.size,
                       meeting_point(place),
                       timeout,
                       missing);
    }
    std::this_thread::sleep_for(milliseconds(50));
  }
}

/// Says hello to rank 0; returns the start it answers with. Throws when it does not in time.
std::string say_hello(c10d::Store& store, const launch::Place& place, double timeout) {
  const auto name = fresh_name();
  store.set(hello_key(place.rank), stored(name));
  store.wait({welcome_key(name)}, in_milliseconds(timeout));
  return text_at(store, welcome_key(name));
}

}  // namespace

std::string meet(c10d::Store& store, const launch::Place& place, double timeout) {
  if (place.rank == 0) {
    Meeting meeting(store, place);
    const auto reason = reason_not_to_start(meeting, place, timeout);
    meeting.say(reason.empty() ? start_word : reason);
    if (reason.empty()) return meeting.start();
    std::this_thread::sleep_for(milliseconds(500));  // its store must live until all have read
    throw std::runtime_error(reason);
  }
  constexpr double patience = 5;  // the word comes after rank 0's own time is up
  std::string start;
  try {
    start = say_hello(store, place, timeout + patience);
    store.set(here_key(start, place.rank), stored("1"));
    store.wait({key_of(start, word_key)}, in_milliseconds(timeout + patience));
  } catch (const std::exception&) {
    throw std::runtime_error(
        formatted("[distributed] rank 0 at {} gave no word in time", meeting_point(place)));
  }
  const auto word = text_at(store, key_of(start, word_key));
  if (word != start_word) throw SaidByRank0(word);
  return start;
}

void stay_away(c10d::Store& job,
               const launch::Place& place,
               const std::string& reason,
               double patience) {
  const auto text = formatted("rank {}: {}", place.rank, reason);
  if (place.rank != 0) {
    const auto start = say_hello(job, place, patience);
    job.set(key_of(start, refusal_key), stored(text));
    job.set(here_key(start, place.rank), stored("1"));
    return;
  }
  Meeting meeting(job, place);
  meeting.say(text);
  for (const Stopwatch here; here.seconds() < patience && !meeting.missing().empty();) {
    meeting.welcome_all();
    std::this_thread::sleep_for(milliseconds(50));
  }
}

}  // namespace dimred::distributed

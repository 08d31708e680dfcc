#include "stage1/ema.h"

#include "checkpoints/snapshot.h"
#include "engine/weights/average.h"
#include "engine/weights/full_vector.h"
#include "run/scores.h"
#include "run/state.h"
#include "support/scope_exit.h"

namespace dimred::stage1 {
namespace {

constexpr auto weights_key = "ema_weights";
constexpr auto buffers_key = "ema_buffers";
constexpr auto updates_key = "ema_updates";

void assign(models::FlatVectors& flat, const torch::Tensor& weights, const torch::Tensor& buffers) {
  const torch::NoGradGuard no_grad;
  flat.weights.copy_(weights);
  flat.buffers.copy_(buffers);
}

class Ema final : public run::Hook {
 public:
  explicit Ema(const method::AverageOptions& options) : options_(options) {}

  void begin(const run::RunView& run) override {
    if (weights_.count > 0) return;  // restored
    make_room(*run.setup);
    add(run);
  }

  void after_step(const run::RunView& run,
                  const run::StepSummary& /*step*/,
                  const models::Minibatch& /*batch*/) override {
    add(run);
  }

  void evaluate(const run::RunView& run, std::vector<run::CurveRow>& rows) override {
    auto& setup = *run.setup;
    auto& flat = setup.model.flat;
    const ScopeExit back([&flat,
                          weights = flat.weights.detach().clone(),
                          buffers = flat.buffers.clone()] { assign(flat, weights, buffers); });
    assign(flat, weights_.values, buffers_.values);
    auto row = rows.front();
    row.weights = "ema";
    row.learning_rate = row.train_loss = std::nullopt;
    run::add_scores(setup, row, *run.console);
    rows.push_back(row);
    auto snapshot = run::start_snapshot(setup, *run.position, *run.record);
    if (!snapshot) return;
    run.writer->submit([file = run.folder->path() / "ema.h5", snapshot = std::move(snapshot)] {
      checkpoints::write_snapshot(file, snapshot());
    });
  }

  void save(const run::RunView& run, checkpoints::State& state) override {
    state.vectors[weights_key] = engine::full_vector(*run.setup, weights_.values);
    state.vectors[buffers_key] = models::to_vector(buffers_.values);
    state.scalars[updates_key] = weights_.count;
  }

  void restore(const engine::Setup& setup, const checkpoints::State& state, bool /*own*/) override {
    if (!state.scalars.contains(updates_key)) return;  // of a run without a mean: begins here
    make_room(setup);
    models::from_file(setup.model.flat.layout, state.vectors.at(weights_key), weights_.values);
    models::assign(buffers_.values, state.vectors.at(buffers_key));
    weights_.count = buffers_.count = checkpoints::count_of(state.scalars, updates_key);
  }

 private:
  void make_room(const engine::Setup& setup) {
    weights_ = engine::make_average(options_, setup.model.flat.weights);
    buffers_ = engine::make_average(options_, setup.model.flat.buffers);
  }

  void add(const run::RunView& run) {
    engine::add(weights_, options_, run.setup->model.flat.weights);
    engine::add(buffers_, options_, run.setup->model.flat.buffers);
  }

  method::AverageOptions options_;
  engine::Average weights_, buffers_;
};

}  // namespace

std::unique_ptr<run::Hook> make_ema(const method::AverageOptions& options) {
  return options.decay > 0 ? std::make_unique<Ema>(options) : nullptr;
}

}  // namespace dimred::stage1

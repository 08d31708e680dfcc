#include "soup/members.h"

#include <algorithm>

#include "checkpoints/finite.h"
#include "layout/shard.h"
#include "pca/ordered_sum.h"
#include "support/ceiling.h"
#include "support/digest.h"
#include "support/errors.h"
#include "support/parallel.h"

namespace dimred::soup {
namespace {

using Tile = Eigen::Matrix<float, Eigen::Dynamic, Eigen::Dynamic, Eigen::RowMajor>;

// Columns that are read at a time: 4 MB of a member, in which a disk does not seek often.
constexpr std::int64_t row_columns = 1 << 20;

/// The layout of the network with the offsets that its parameters have in the files.
layout::Layout layout_in(const pca::SourceInfo& files, const layout::Layout& network) {
  require(!network.sharded(), "[soup] needs a network that every rank has whole");
  if (files.layout_hash == network.hash) return network;
  require(!files.layout_json.empty(), "[soup] {} has no names of parameters", files.names[0]);
  if (auto moved = pca::at_file_offsets(network, layout::layout_from_json(files.layout_json))) {
    for (auto& entry : moved->entries) entry.file_offset = entry.global_offset;
    return *moved;
  }
  const auto difference = layout::first_difference(network, files.layout_json);
  refuse("[soup] {} belongs to another model: {}", files.names[0], difference);
}

std::vector<layout::ColumnRange> columns_of_parameters(const layout::Layout& layout) {
  std::vector<layout::ColumnRange> ranges;
  for (const auto& entry : layout.entries)
    if (entry.global_size > 0)
      ranges.push_back({entry.global_offset, entry.global_offset + entry.global_size});
  return ranges;
}

std::span<float> span_of(Eigen::ArrayXf& values) {
  return {values.data(), static_cast<std::size_t>(values.size())};
}

/// `columns` in parts of `width`.
struct Tiles {
  layout::ColumnRange columns;
  std::int64_t width = row_columns;

  std::int64_t count() const { return ceiling(columns.size(), width); }
  layout::ColumnRange operator[](std::int64_t index) const {
    const auto begin = columns.begin + index * width;
    return {begin, std::min(begin + width, columns.end)};
  }
};

}  // namespace

Members::Members(std::vector<std::filesystem::path> files, const layout::Layout& layout)
    : source_([&] {
        require(files.size() >= 2, "[soup] needs two members or more, received {}", files.size());
        auto sorted = files;
        std::ranges::sort(sorted);
        const auto twice = std::ranges::adjacent_find(sorted);
        require(twice == sorted.end(),
                "[soup] needs different members, received {} twice",
                twice == sorted.end() ? "" : twice->string());
        return pca::open_files(std::move(files));
      }()),
      layout_(layout_in(source_->info(), layout)),
      target_(layout_, layout::shard_of(layout_, 0, 1)),
      layers_(columns_of_parameters(layout_)),
      threads_(available_threads()) {}

std::string Members::parameter_at(std::int64_t column) const {
  for (const auto& entry : layout_.entries)
    if (column >= entry.global_offset && column < entry.global_offset + entry.global_size)
      return entry.name;
  return "";
}

void Members::require_finite(std::int64_t member,
                             std::int64_t begin,
                             std::span<const float> values) const {
  const auto bad = checkpoints::first_not_finite(values);
  require_environment(!bad,
                      "[soup] {} has a value that is not finite in {}",
                      names()[member],
                      parameter_at(begin + bad.value_or(0)));
}

void Members::check_values() const {
  const Tiles tiles{whole().front()};
  std::vector<std::vector<std::string>> digests(count());  // of the tiles
  for (auto& of_member : digests) of_member.resize(tiles.count());
  in_parallel(tiles.count(), threads_, [&](std::int64_t index) {
    const auto columns = tiles[index];
    std::vector<float> row(columns.size());
    for (std::int64_t i = 0; i < count(); ++i) {
      source_->read(i, columns.begin, row);
      require_finite(i, columns.begin, row);
      digests[i][index] = digest(std::span<const float>(row));
    }
  });
  for (std::size_t i = 0; i < digests.size(); ++i)
    for (std::size_t j = 0; j < i; ++j)
      require(digests[i] != digests[j],
              "[soup] needs different members, {} holds the weights of {}",
              names()[i],
              names()[j]);
}

std::vector<Eigen::MatrixXd> Members::products(
    const std::vector<layout::ColumnRange>& blocks) const {
  const auto n = count();
  std::vector<Eigen::MatrixXd> result;
  for (const auto& block : blocks) {
    const Tiles tiles{block, std::max<std::int64_t>(1, 4 * row_columns / n)};
    const auto sum = pca::ordered_sum(tiles.count(), threads_, n * n, [&] {
      return [&](std::int64_t index, std::span<double> partial) {
        constexpr std::int64_t at_once = 4096;  // columns in float64
        const auto columns = tiles[index];
        Tile values(n, columns.size());
        source_->read_tile(columns.begin, columns.size(), values.data(), columns.size());
        Eigen::Map<Eigen::MatrixXd> products(partial.data(), n, n);
        for (std::int64_t begin = 0; begin < columns.size(); begin += at_once) {
          const auto width = std::min(at_once, columns.size() - begin);
          Eigen::MatrixXd d = values.middleCols(begin, width).cast<double>();
          d.rowwise() -= Eigen::RowVectorXd(d.row(0));
          products.noalias() += d * d.transpose();
        }
      };
    });
    result.emplace_back(Eigen::Map<const Eigen::MatrixXd>(sum.data(), n, n));
  }
  return result;
}

Coefficients Members::products_with(const torch::Tensor& v,
                                    torch::Tensor scratch,
                                    const std::vector<layout::ColumnRange>& blocks) const {
  const auto n = count();
  const auto from = v.cpu();  // v itself on the host
  const auto to = v.is_cpu() ? scratch : torch::empty_like(from);
  const std::span in_file_order(to.mutable_data_ptr<float>(),
                                static_cast<std::size_t>(layout_.file_size));
  layout::memory_to_file(layout_,
                         {from.const_data_ptr<float>(), static_cast<std::size_t>(from.numel())},
                         in_file_order);
  Coefficients result(n, std::ssize(blocks));
  for (std::size_t b = 0; b < blocks.size(); ++b) {
    const Tiles tiles{blocks[b]};
    const auto sum = pca::ordered_sum(tiles.count(), threads_, n, [&] {
      return [&](std::int64_t index, std::span<double> partial) {
        const auto columns = tiles[index];
        const Eigen::Map<const Eigen::ArrayXf> part(&in_file_order[columns.begin], columns.size());
        Eigen::ArrayXf first(columns.size()), row(columns.size());
        source_->read(0, columns.begin, span_of(first));
        for (std::int64_t i = 1; i < n; ++i) {
          source_->read(i, columns.begin, span_of(row));
          partial[i] += ((row.cast<double>() - first.cast<double>()) * part.cast<double>()).sum();
        }
      };
    });
    result.col(static_cast<Eigen::Index>(b)) = Eigen::Map<const Eigen::VectorXd>(sum.data(), n);
  }
  return result;
}

void Members::combine(const Coefficients& coefficients,
                      const std::vector<layout::ColumnRange>& blocks,
                      torch::Tensor memory) const {
  const auto host = memory.is_cpu() ? memory : torch::zeros_like(memory, torch::kCPU);
  const std::span target(host.mutable_data_ptr<float>(), static_cast<std::size_t>(host.numel()));
  std::vector<std::pair<std::size_t, layout::ColumnRange>> tiles;  // with their blocks
  for (std::size_t b = 0; b < blocks.size(); ++b)
    for (std::int64_t i = 0; i < Tiles{blocks[b]}.count(); ++i)
      tiles.emplace_back(b, Tiles{blocks[b]}[i]);
  in_parallel(std::ssize(tiles), threads_, [&](std::int64_t i) {
    const auto& [block, columns] = tiles[i];
    Eigen::ArrayXf row(columns.size());
    Eigen::ArrayXd sum = Eigen::ArrayXd::Zero(columns.size());
    for (std::int64_t member = 0; member < count(); ++member) {
      const double c = coefficients(member, static_cast<Eigen::Index>(block));
      if (c == 0) continue;
      source_->read(member, columns.begin, span_of(row));
      sum += c * row.cast<double>();
    }
    row = sum.cast<float>();
    target_.scatter(columns.begin, span_of(row), target);
  });
  if (!memory.is_cpu()) memory.copy_(host);
}

}  // namespace dimred::soup

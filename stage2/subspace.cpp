#include "stage2/subspace.h"

#include "stage2/projection_device.h"

namespace dimred::stage2 {
namespace {

bool is_whole(const Subspace& subspace) {
  return subspace.blocks.size() == 1 && subspace.blocks[0].columns.size() == subspace.own_columns;
}

}  // namespace

Subspace::Subspace(const torch::Tensor& basis)
    : blocks{{.columns = {0, basis.size(1)}, .basis = basis}}, own_columns(basis.size(1)) {}

std::int64_t Subspace::components() const {
  std::int64_t sum = 0;
  for (const auto& block : blocks) sum += block.basis.size(0);
  return sum;
}

std::int64_t Subspace::bytes() const {
  std::int64_t sum = 0;
  for (const auto& block : blocks) sum += static_cast<std::int64_t>(block.basis.nbytes());
  return sum;
}

Subspace by_blocks(const torch::Tensor& basis,
                   const std::vector<layout::ColumnRange>& ranges,
                   torch::Device device) {
  Subspace result;
  result.own_columns = basis.size(1);
  for (const auto& range : ranges) {
    const auto rows = basis.narrow(1, range.begin, range.size());
    result.blocks.push_back(
        {.columns = range,
         .basis = device.is_cuda() ? device::aligned_rows(rows, device) : rows.clone()});
  }
  return result;
}

std::vector<double> project(const Subspace& subspace,
                            const torch::Tensor& vector,
                            const std::vector<torch::Tensor>& others) {
  std::vector<Product> products;
  for (const auto& [columns, basis] : subspace.blocks) {
    products.push_back({.basis = basis,
                        .vector = vector.narrow(0, columns.begin, columns.size()),
                        .others = {},
                        .algebra = subspace.algebra});
  }
  if (is_whole(subspace)) {
    products.front().others = others;
  } else if (!others.empty()) {
    products.push_back(
        {.basis = {}, .vector = vector, .others = others, .algebra = subspace.algebra});
  }
  return project(products);
}

std::pair<torch::Tensor, torch::Tensor> back_project(const Subspace& subspace,
                                                     std::span<const double> first,
                                                     std::span<const double> second,
                                                     const torch::Tensor& like) {
  if (is_whole(subspace)) return back_project(subspace.blocks[0].basis, first, second);
  std::pair result{torch::zeros_like(like), torch::zeros_like(like)};
  std::size_t row = 0;
  for (const auto& [columns, basis] : subspace.blocks) {
    const auto k = static_cast<std::size_t>(basis.size(0));
    const auto [one, two] = back_project(basis, first.subspan(row, k), second.subspan(row, k));
    result.first.narrow(0, columns.begin, columns.size()).copy_(one);
    result.second.narrow(0, columns.begin, columns.size()).copy_(two);
    row += k;
  }
  return result;
}

}  // namespace dimred::stage2

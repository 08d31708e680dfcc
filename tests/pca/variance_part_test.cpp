#include <gtest/gtest.h>

#include <stdexcept>

#include "pca/fit.h"
#include "support/errors.h"
#include "tests/pca/laid_out.h"
#include "tests/pca/matrices.h"

namespace dimred::pca {
namespace {

using testing::kind_options;
using testing::Matrix;
using testing::random_matrix;
using testing::source_of;

FitOptions part_options(double part) {
  FitOptions options;
  options.variance = part;
  return options;
}

/// By two passes over the snapshots, as a fit of the k that follows.
TEST(VariancePart, FitsAsWithItsNumber) {
  const TemporaryFolder folder;
  const auto source = source_of(random_matrix(12, 9001, 3));
  const auto chosen = fit(*source, part_options(0.6), folder / "part.npy");
  const auto exact =
      fit(*source, kind_options(Kind::pca, chosen.header.components), folder / "k.npy");
  EXPECT_LT(1, chosen.header.components);
  EXPECT_LT(chosen.header.components, 11);
  EXPECT_EQ(text_of_file(folder / "part.npy"), text_of_file(folder / "k.npy"));
  EXPECT_EQ(chosen.report.bytes_read, exact.report.bytes_read);
}

TEST(VariancePart, LeavesOutWhatIsRounding) {
  const TemporaryFolder folder;
  const Matrix snapshots = random_matrix(12, 3, 4) * random_matrix(3, 9001, 5);
  for (const double part : {1e-9, 1 - 1e-16}) {
    const auto report = fit(*source_of(snapshots), part_options(part), folder / "p.npy");
    EXPECT_EQ(report.header.components, part < 0.5 ? 1 : 3);
  }
}

TEST(VariancePart, RefusesWhatIsNone) {
  const TemporaryFolder folder;
  const auto source = source_of(random_matrix(12, 90, 3));
  for (const double wrong : {-0.5, 1.0, 2.0})
    EXPECT_THROW(fit(*source, part_options(wrong), folder / "p.npy"), std::invalid_argument);
  auto options = kind_options(Kind::span, 3);
  options.variance = 0.5;
  EXPECT_THROW(fit(*source, options, folder / "p.npy"), std::invalid_argument);
}

}  // namespace
}  // namespace dimred::pca

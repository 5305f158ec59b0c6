// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstdint>
#include <span>
#include <string>
#include <vector>

#include "mpi/core/communicator.hpp"

namespace flotilla {

struct EvaluateArguments {
  std::string checkpoint;  ///< A file, or a folder: its newest good checkpoint
  std::string deck;        ///< Empty: the one in the checkpoint
  std::vector<std::string> overrides;
  bool best = false;    ///< The best checkpoint of the folder
  std::string vectors;  ///< HDF5 file for the outputs of every sample; empty: none
  bool per_class = false;
  bool confusion = false;
  bool json = false;
  std::string output;  ///< File for the JSON; empty: stdout, instead of the report
};

/// The classes that samples of each class are predicted as: the class of the highest output (the lower class
/// where outputs are equal).
class ClassTable {
 public:
  /// With more classes no matrix is counted.
  static constexpr std::int64_t max_for_matrix = 1000;

  /// @param names of the classes; empty: they have numbers only  @param matrix count each pair of classes
  ClassTable(std::int64_t classes, std::vector<std::string> names, bool matrix);
  /// labels.size() rows of `classes` outputs.
  void add(std::span<const float> rows, std::span<const std::int32_t> labels);
  /// Collective. Adds up the counts of all ranks.
  void merge(const mpi::Communicator& world);

  /// A line for each class: samples, top-1 (recall), precision.
  std::vector<std::string> lines() const;
  /// The confusion matrix: a row for each true class, a column for each predicted one.
  std::vector<std::string> matrix_lines() const;

  std::int64_t classes() const { return static_cast<std::int64_t>(classes_); }
  bool has_matrix() const { return !matrix_.empty(); }
  std::string name(std::size_t label) const;  ///< Its number, if it has no name.
  std::int64_t samples(std::size_t label) const { return samples_[label]; }
  std::int64_t predicted(std::size_t label) const { return predicted_[label]; }
  std::int64_t correct(std::size_t label) const { return correct_[label]; }
  /// Samples of class `label` that were classified as `taken`.
  std::int64_t count(std::size_t label, std::size_t taken) const { return matrix_[label * classes_ + taken]; }

 private:
  std::size_t classes_;
  std::vector<std::string> names_;
  std::vector<std::int64_t> samples_, predicted_, correct_;  ///< Counts of each class
  std::vector<std::int64_t> matrix_;                         ///< classes × classes, or empty
};

}  // namespace flotilla

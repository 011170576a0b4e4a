// SPDX-License-Identifier: MIT
// Small dense vectors and matrices, so that an operator reads like its formula.
#pragma once

#include <cmath>
#include <complex>
#include <cstdint>
#include <vector>

namespace fla::ref {

using Complex = std::complex<double>;

template <class S>
using Vec = std::vector<S>;

/// Row-major rows x cols, zero at first.
template <class S>
class Matrix {
 public:
  Matrix(int64_t rows, int64_t cols) : rows_(rows), cols_(cols), data_(rows * cols) {}

  int64_t rows() const { return rows_; }
  int64_t cols() const { return cols_; }
  S& operator()(int64_t i, int64_t j) { return data_[i * cols_ + j]; }
  const S& operator()(int64_t i, int64_t j) const { return data_[i * cols_ + j]; }
  std::vector<S>& data() { return data_; }
  const std::vector<S>& data() const { return data_; }

 private:
  int64_t rows_;
  int64_t cols_;
  std::vector<S> data_;
};

/// Row `index` of an array whose rows have `width` elements.
template <class S>
Vec<S> row(const std::vector<S>& array, int64_t index, int64_t width) {
  const auto first = array.begin() + index * width;
  return Vec<S>(first, first + width);
}

template <class S>
void set_row(std::vector<S>& array, int64_t index, const Vec<S>& x) {
  const int64_t width = static_cast<int64_t>(x.size());
  for (int64_t i = 0; i < width; ++i) {
    array[index * width + i] = x[i];
  }
}

/// Adds to a row; several value heads add to the row of their key head.
template <class S>
void add_row(std::vector<S>& array, int64_t index, const Vec<S>& x) {
  const int64_t width = static_cast<int64_t>(x.size());
  for (int64_t i = 0; i < width; ++i) {
    array[index * width + i] += x[i];
  }
}

template <class S>
Matrix<S> load(const std::vector<S>& array, int64_t index, int64_t rows, int64_t cols) {
  Matrix<S> m(rows, cols);
  m.data() = row(array, index, rows * cols);
  return m;
}

template <class S>
void store(std::vector<S>& array, int64_t index, const Matrix<S>& m) {
  set_row(array, index, m.data());
}

template <class S>
S dot(const Vec<S>& x, const Vec<S>& y) {
  S sum{};
  for (size_t i = 0; i < x.size(); ++i) {
    sum += x[i] * y[i];
  }
  return sum;
}

template <class C, class S>
Vec<S> scaled(C factor, Vec<S> x) {
  for (S& element : x) {
    element *= factor;
  }
  return x;
}

template <class S>
Vec<S> mul(Vec<S> x, const Vec<S>& y) {
  for (size_t i = 0; i < x.size(); ++i) {
    x[i] *= y[i];
  }
  return x;
}

template <class S>
Vec<S> add(Vec<S> x, const Vec<S>& y) {
  for (size_t i = 0; i < x.size(); ++i) {
    x[i] += y[i];
  }
  return x;
}

template <class S>
Vec<S> sub(Vec<S> x, const Vec<S>& y) {
  for (size_t i = 0; i < x.size(); ++i) {
    x[i] -= y[i];
  }
  return x;
}

template <class S>
Vec<S> exp(Vec<S> x) {
  for (S& element : x) {
    element = std::exp(element);
  }
  return x;
}

/// m^T x: what a state says to a key.
template <class S>
Vec<S> read(const Matrix<S>& m, const Vec<S>& x) {
  Vec<S> y(m.cols());
  for (int64_t i = 0; i < m.rows(); ++i) {
    for (int64_t j = 0; j < m.cols(); ++j) {
      y[j] += m(i, j) * x[i];
    }
  }
  return y;
}

/// m y.
template <class S>
Vec<S> apply(const Matrix<S>& m, const Vec<S>& y) {
  Vec<S> x(m.rows());
  for (int64_t i = 0; i < m.rows(); ++i) {
    for (int64_t j = 0; j < m.cols(); ++j) {
      x[i] += m(i, j) * y[j];
    }
  }
  return x;
}

/// m += x y^T.
template <class S>
void add_outer(Matrix<S>& m, const Vec<S>& x, const Vec<S>& y) {
  for (int64_t i = 0; i < m.rows(); ++i) {
    for (int64_t j = 0; j < m.cols(); ++j) {
      m(i, j) += x[i] * y[j];
    }
  }
}

/// m -= x y^T.
template <class S>
void sub_outer(Matrix<S>& m, const Vec<S>& x, const Vec<S>& y) {
  for (int64_t i = 0; i < m.rows(); ++i) {
    for (int64_t j = 0; j < m.cols(); ++j) {
      m(i, j) -= x[i] * y[j];
    }
  }
}

/// m <- factor m.
template <class S>
void scale_all(Matrix<S>& m, S factor) {
  for (S& element : m.data()) {
    element *= factor;
  }
}

/// m <- diag(factor) m.
template <class S>
void scale_rows(Matrix<S>& m, const Vec<S>& factor) {
  for (int64_t i = 0; i < m.rows(); ++i) {
    for (int64_t j = 0; j < m.cols(); ++j) {
      m(i, j) *= factor[i];
    }
  }
}

/// m <- m diag(factor).
template <class S>
void scale_cols(Matrix<S>& m, const Vec<S>& factor) {
  for (int64_t i = 0; i < m.rows(); ++i) {
    for (int64_t j = 0; j < m.cols(); ++j) {
      m(i, j) *= factor[j];
    }
  }
}

/// Sum over the columns of a o b.
template <class S>
Vec<S> row_dots(const Matrix<S>& a, const Matrix<S>& b) {
  Vec<S> sums(a.rows());
  for (int64_t i = 0; i < a.rows(); ++i) {
    for (int64_t j = 0; j < a.cols(); ++j) {
      sums[i] += a(i, j) * b(i, j);
    }
  }
  return sums;
}

/// Sum over the rows of a o b.
template <class S>
Vec<S> col_dots(const Matrix<S>& a, const Matrix<S>& b) {
  Vec<S> sums(a.cols());
  for (int64_t i = 0; i < a.rows(); ++i) {
    for (int64_t j = 0; j < a.cols(); ++j) {
      sums[j] += a(i, j) * b(i, j);
    }
  }
  return sums;
}

}  // namespace fla::ref

#include <vector>

namespace linear::dense {

/// A matrix in rows.
template <typename T>
class Matrix : public Shape {
 public:
  explicit Matrix(int rows);

  /// How many rows there are.
  int rows() const { return rows_; }
  bool operator==(const Matrix& other) const { return data_ == other.data_; }
  ~Matrix() = default;

 private:
  std::vector<T> data_;
  int rows_;
};

template <typename T>
Matrix<T>::Matrix(int rows) : rows_(rows) {
  data_.resize(rows);
}

enum class Order { Rows, Columns };

using Row = std::vector<double>;

// Adds two rows.
Row& add(Row& left, const Row& right) {
  return left;
}

}  // namespace linear::dense

std::string Shape::Border::name() const { return "border"; }

struct Point {
  int x, y;
  friend bool operator<(const Point& a, const Point& b) { return a.x < b.x; }
};

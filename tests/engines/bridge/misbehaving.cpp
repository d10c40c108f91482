// Ways to break the C ABI, each a symbol; `fine` is the token rule at its simplest, for gamma = 1.
#include <cstdlib>

#define VERIFY(name)                                                                        \
  extern "C" int name(const double *p, const double *q, const int *x, int gamma, int V,     \
                      const double *coins, int *out)

static int token(const double *weights, int V, double u) {
  double total = 0, sum = 0;
  for (int v = 0; v < V; v++) total += weights[v] > 0 ? weights[v] : 0;
  int last = 0;
  for (int v = 0; v < V; v++) {
    if (weights[v] <= 0) continue;
    sum += weights[v];
    last = v;
    if (u * total < sum) break;
  }
  return last;
}

static int rule(const double *p, const double *q, int x, int V, double accept, double draw,
                int *out) {
  if (accept * q[x] >= p[x]) {
    double residual[512];
    for (int v = 0; v < V; v++) residual[v] = p[v] - q[v];
    out[0] = token(residual, V, draw);
    return 1;
  }
  out[0] = x;
  out[1] = token(p + V, V, draw);
  return 2;
}

VERIFY(fine) { return rule(p, q, x[0], V, coins[0], coins[1], out); }
VERIFY(reads_more) { return rule(p, q, x[0], V, coins[0], coins[2], out); }
VERIFY(draws_itself) { return rule(p, q, x[0], V, coins[0], rand() / (RAND_MAX + 1.0), out); }
VERIFY(code) { return -7; }
VERIFY(nothing) { return 0; }
VERIFY(too_many) { return gamma + 2; }
VERIFY(unwritten) { return 1; }
VERIFY(beyond_v) { out[0] = V; return 1; }
VERIFY(writes_more) { out[gamma + 1] = 0; return rule(p, q, x[0], V, coins[0], coins[1], out); }
VERIFY(segfaults) { return *(volatile int *)8; }
VERIFY(aborts) { abort(); }
VERIFY(exits) { _Exit(3); }
VERIFY(spins) { for (volatile int i = 0;; i = i + 1) {} return 0; }
VERIFY(changes) {
  const_cast<double *>(p)[0] += 1e-3;
  return rule(p, q, x[0], V, coins[0], coins[1], out);
}
VERIFY(keeps) {
  static int calls = 0;
  return rule(p, q, x[0], V, coins[0], ++calls % 8 ? coins[1] : 0.0, out);
}

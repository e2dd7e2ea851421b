/* SPDX-License-Identifier: MIT */
/* Tanks and the water in them. */
#include <stdio.h>
#include "tank.h"

#define CAPACITY 8
#define EACH_TANK(tank, tanks)                                  \
    for (struct tank *tank = (tanks); tank < (tanks) + CAPACITY; \
         tank++)

/* What a tank holds. */
struct tank {
    double litres;
    int valve;
};

typedef struct {
    int from, to;
} pipe_t;

typedef int (*on_empty)(struct tank *);

enum state { OPEN, SHUT };

static const char *const NAMES[] = {
    "north",
    "south",
};

int later(void);

/**
 * Fills a tank, as far as it goes.
 */
static double *fill(struct tank *tank, double litres)
{
    tank->litres += litres;
    return &tank->litres;
}

#ifdef DEBUG
/* Prints "größe". */
void print(const struct tank *tank) { printf("%f\n", tank->litres); }
#endif

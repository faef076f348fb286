/* Digits as people write them: our own drawings, modelled on the handwriting of American school children and
 * clerks. Where two forms are given, the drawing lies anywhere between them. */
#include "data/strokes.h"

#include <stddef.h>

#define TURN                         \
    {                                \
        IPU__PEN_SIGN, IPU__PEN_TURN \
    }
#define UP                         \
    {                              \
        IPU__PEN_SIGN, IPU__PEN_UP \
    }
#define END                         \
    {                               \
        IPU__PEN_SIGN, IPU__PEN_END \
    }

/* ---- 0: an oval, closed or nearly, narrow or round, plain, with a curl inside or a tail ---- */

static const ipu__pen zero_narrow[] = {{58, 2},  {36, 6},  {20, 30}, {16, 60}, {28, 92}, {50, 100},
                                       {72, 84}, {82, 50}, {74, 16}, {52, 0},  END};
static const ipu__pen zero_round[]  = {{60, 6},  {28, 4},   {4, 30},  {0, 62}, {20, 94}, {52, 100},
                                       {88, 84}, {100, 48}, {84, 12}, {46, 2}, END};
static const ipu__pen zero_open[]   = {{72, 14}, {40, 0},  {10, 22}, {6, 62},  {28, 98}, {64, 96},
                                       {92, 66}, {94, 32}, {70, 6},  {36, 12}, END};
static const ipu__pen zero_shut[]   = {{80, 20}, {52, 0},  {18, 18}, {4, 56}, {20, 94}, {56, 100},
                                       {86, 74}, {92, 40}, {78, 8},  {44, 6}, END};
static const ipu__pen zero_curl[]   = {{62, 26}, {72, 8},  {44, 0},  {14, 20}, {4, 56},  {24, 96},
                                       {60, 98}, {92, 68}, {96, 32}, {72, 6},  {42, 10}, END};
static const ipu__pen zero_curl2[]  = {{50, 20}, {62, 4},  {40, 2},  {20, 26}, {14, 62}, {34, 98},
                                       {60, 94}, {80, 62}, {82, 26}, {62, 4},  {34, 16}, END};
static const ipu__pen zero_tail[]   = {{70, 0},  {38, 14}, {12, 44}, {10, 80}, {38, 100},
                                       {72, 84}, {88, 46}, {72, 14}, {44, 8},  END};
static const ipu__pen zero_tail2[]  = {{84, 4},  {52, 4},  {20, 30}, {8, 68}, {26, 98},
                                       {60, 92}, {84, 58}, {82, 24}, {54, 2}, END};
static const ipu__pen zero_plain[]  = {{50, 0},  {18, 22}, {6, 60}, {38, 100},
                                       {82, 76}, {92, 30}, {50, 0}, END};
static const ipu__pen zero_plain2[] = {{62, 2},  {30, 14}, {14, 56}, {32, 98},
                                       {66, 84}, {84, 36}, {58, 0},  END};

/* ---- 1: usually one stroke; sometimes a flag, rarely a foot ---- */

static const ipu__pen one_bow[]   = {{50, 0}, {54, 50}, {48, 100}, END};
static const ipu__pen one_stick[] = {{52, 0}, {47, 50}, {52, 100}, END};
static const ipu__pen one_flag[]  = {{30, 22}, {42, 12}, {52, 0}, TURN, {52, 50}, {52, 100}, END};
static const ipu__pen one_flag2[] = {{38, 14}, {46, 8}, {54, 0}, TURN, {53, 50}, {48, 100}, END};
static const ipu__pen one_foot[]  = {{24, 24}, {42, 10},  {54, 0},  TURN,     {54, 50}, {52, 98},
                                     UP,       {22, 100}, {52, 98}, {84, 97}, END};
static const ipu__pen one_foot2[] = {{34, 20}, {46, 10}, {52, 0},  TURN,     {50, 50}, {50, 96},
                                     UP,       {10, 98}, {50, 97}, {92, 98}, END};

/* ---- 2: a swan's neck and a foot; a corner at the left, or a loop ---- */

static const ipu__pen two_flat[]  = {{8, 20},  {26, 4}, {56, 0},  {76, 14}, {70, 40}, {44, 66},
                                     {10, 96}, TURN,    {36, 94}, {64, 94}, {96, 92}, END};
static const ipu__pen two_neck[]  = {{14, 24}, {30, 4}, {54, 2},  {66, 20}, {62, 44},  {40, 72},
                                     {12, 98}, TURN,    {40, 92}, {66, 97}, {92, 100}, END};
static const ipu__pen two_z[]     = {{4, 12}, {30, 4}, {60, 2},  {84, 6},  {78, 22},  {46, 58},
                                     {6, 94}, TURN,    {38, 92}, {66, 92}, {100, 90}, END};
static const ipu__pen two_z2[]    = {{10, 18}, {34, 8}, {60, 4},  {78, 16}, {68, 38},  {40, 66},
                                     {4, 90},  TURN,    {34, 94}, {68, 97}, {100, 94}, END};
static const ipu__pen two_loop[]  = {{14, 22}, {34, 2},  {62, 2},  {72, 24}, {62, 54}, {40, 82},  {18, 96},
                                     {4, 90},  {12, 76}, {34, 78}, {58, 92}, {80, 98}, {100, 88}, END};
static const ipu__pen two_loop2[] = {{10, 28}, {24, 6},  {52, 0},  {70, 18}, {66, 48}, {46, 78}, {22, 98},
                                     {6, 94},  {10, 82}, {28, 78}, {54, 86}, {76, 90}, {98, 82}, END};
static const ipu__pen two_wide[]  = {{22, 24}, {36, 2},  {66, 0},  {80, 22}, {66, 56}, {40, 86},  {14, 100},
                                     {0, 84},  {14, 66}, {40, 70}, {62, 88}, {84, 96}, {106, 84}, END};
static const ipu__pen two_wide2[] = {{6, 22}, {28, 6}, {58, 0},  {76, 18}, {64, 50}, {44, 78},  {24, 98},
                                     {6, 96}, {8, 76}, {32, 64}, {56, 76}, {80, 94}, {96, 100}, END};
static const ipu__pen two_curl[]  = {{28, 30}, {14, 24}, {24, 4},  {56, 0},  {74, 20}, {64, 52}, {38, 82},
                                     {8, 98},  TURN,     {38, 90}, {64, 94}, {94, 96}, END};
static const ipu__pen two_curl2[] = {{36, 24}, {20, 26}, {18, 8},  {48, 0},  {72, 14}, {66, 46}, {42, 76},
                                     {14, 96}, TURN,     {40, 96}, {62, 92}, {86, 88}, END};

/* ---- 3: two bows with a sharp or a looped waist, or a flat roof ---- */

static const ipu__pen three_bows[]  = {{10, 12}, {34, 0},  {66, 4},  {76, 20},  {62, 38}, {36, 46}, TURN,
                                       {66, 48}, {84, 66}, {76, 90}, {46, 100}, {6, 92},  END};
static const ipu__pen three_bows2[] = {{18, 18}, {40, 2},  {68, 6},  {72, 24},  {58, 40}, {42, 48}, TURN,
                                       {60, 52}, {74, 72}, {64, 94}, {36, 100}, {10, 88}, END};
static const ipu__pen three_loop[]  = {{8, 14},  {36, 0},  {72, 4},  {78, 22},  {58, 42}, {38, 50}, {34, 44},
                                       {56, 44}, {82, 60}, {82, 84}, {52, 100}, {4, 94},  END};
static const ipu__pen three_loop2[] = {{14, 8},  {44, 2},  {70, 12}, {66, 30}, {48, 44}, {36, 52}, {38, 46},
                                       {58, 48}, {74, 64}, {70, 88}, {40, 98}, {8, 98},  END};
static const ipu__pen three_flat[]  = {{8, 6},   {40, 4},  {82, 2},  TURN,      {64, 22}, {42, 42}, TURN,
                                       {72, 46}, {86, 68}, {74, 92}, {42, 100}, {6, 90},  END};
static const ipu__pen three_slim[]  = {{20, 8},  {46, 0},  {62, 14}, {52, 34}, {36, 46},  TURN,
                                       {52, 50}, {60, 66}, {50, 86}, {32, 98}, {12, 100}, END};
static const ipu__pen three_slim2[] = {{12, 2},  {40, 4},  {66, 8},  {58, 28},  {40, 42},  TURN,
                                       {58, 46}, {66, 64}, {56, 84}, {38, 100}, {20, 104}, END};

/* ---- 4: open more often than closed; two strokes, or one ---- */

static const ipu__pen four_open[]    = {{22, 4}, {14, 28}, {6, 54},  TURN,      {40, 54}, {92, 48},
                                        UP,      {74, 0},  {66, 50}, {60, 100}, END};
static const ipu__pen four_tall[]    = {{12, 10}, {8, 34}, {10, 58}, TURN,      {46, 56}, {86, 50},
                                        UP,       {84, 4}, {78, 48}, {76, 100}, END};
static const ipu__pen four_u[]       = {{14, 8}, {6, 36}, {14, 54}, {40, 56},  {66, 46}, {82, 30},
                                        UP,      {92, 2}, {80, 48}, {70, 100}, END};
static const ipu__pen four_u2[]      = {{24, 0}, {10, 34}, {18, 52}, {42, 52},  {66, 44}, {88, 38},
                                        UP,      {78, 6},  {66, 52}, {58, 100}, END};
static const ipu__pen four_closed[]  = {{62, 0}, {34, 30}, {4, 60},  TURN,      {46, 60}, {96, 56},
                                        UP,      {64, 4},  {62, 50}, {60, 100}, END};
static const ipu__pen four_closed2[] = {{70, 2}, {40, 28}, {8, 54},  TURN,      {44, 58}, {94, 60},
                                        UP,      {68, 0},  {62, 52}, {54, 100}, END};
static const ipu__pen four_one[]     = {{18, 6},  {12, 30}, {8, 52},  TURN,     {34, 50},  {58, 40},
                                        {76, 16}, TURN,     {72, 44}, {68, 70}, {64, 100}, END};
static const ipu__pen four_mid[]     = {{32, 0}, {18, 24}, {6, 52},  TURN,      {40, 54}, {92, 46},
                                        UP,      {62, 24}, {56, 60}, {48, 100}, END};
static const ipu__pen four_mid2[]    = {{20, 2}, {14, 30}, {4, 58},  TURN,      {44, 56}, {88, 54},
                                        UP,      {54, 30}, {52, 64}, {50, 100}, END};
static const ipu__pen four_bow[]     = {{12, 6}, {6, 32},  {20, 54}, {52, 48},  {74, 28}, {82, 2},
                                        TURN,    {76, 40}, {70, 70}, {66, 100}, END};
static const ipu__pen four_bow2[]    = {{24, 10}, {12, 34}, {16, 52}, {44, 52},  {66, 38}, {78, 14},
                                        TURN,     {68, 46}, {60, 72}, {50, 100}, END};
static const ipu__pen four_tent[]    = {{44, 0}, {24, 34}, {6, 66},  TURN,      {40, 66}, {86, 62},
                                        UP,      {46, 0},  {56, 48}, {64, 100}, END};

/* ---- 5: a hat, a back, a belly; in one stroke or with the hat put on last ---- */

static const ipu__pen five_hat[]  = {{34, 6},  {28, 24}, {22, 44}, TURN,    {48, 38}, {74, 54}, {72, 80},
                                     {44, 98}, {6, 92},  UP,       {34, 6}, {62, 4},  {96, 0},  END};
static const ipu__pen five_hat2[] = {{20, 10},  {18, 28}, {18, 46}, TURN,    {44, 42}, {66, 60}, {62, 86},
                                     {34, 100}, {2, 94},  UP,       {24, 8}, {54, 8},  {90, 6},  END};
static const ipu__pen five_one[]  = {{92, 4},  {62, 4},  {34, 6},  TURN,      {28, 24}, {20, 44}, TURN,
                                     {46, 38}, {74, 54}, {72, 82}, {44, 100}, {4, 92},  END};
static const ipu__pen five_one2[] = {{84, 0},  {58, 4},  {38, 10}, TURN,     {32, 26}, {28, 40}, TURN,
                                     {52, 44}, {70, 62}, {62, 88}, {34, 98}, {8, 88},  END};
static const ipu__pen five_s[]    = {{94, 4},  {66, 2},  {40, 10},  {28, 28}, {40, 44}, {64, 58},
                                     {72, 78}, {50, 98}, {20, 100}, {4, 90},  END};
static const ipu__pen five_s2[]   = {{88, 2},  {62, 6},  {44, 18}, {38, 34}, {50, 46}, {64, 60},
                                     {62, 82}, {40, 98}, {16, 96}, {2, 84},  END};
static const ipu__pen five_far[]  = {{40, 10}, {32, 26}, {24, 40}, TURN,    {46, 40}, {60, 56},  {54, 80},
                                     {30, 96}, {0, 96},  UP,       {40, 8}, {70, 3},  {112, -4}, END};
static const ipu__pen five_far2[] = {{30, 14},  {28, 30}, {28, 46}, TURN,    {50, 40}, {72, 58}, {66, 84},
                                     {40, 100}, {6, 86},  UP,       {36, 6}, {60, 0},  {88, -6}, END};
static const ipu__pen five_shut[] = {{88, 4},  {60, 4},  {34, 8},  TURN,      {30, 26}, {24, 46}, TURN,
                                     {54, 38}, {84, 58}, {78, 88}, {46, 100}, {14, 92}, {12, 78}, END};

/* ---- 6: a bow or a stick down, and a loop ---- */

static const ipu__pen six_bow[]    = {{66, 0},  {38, 22}, {16, 54}, {14, 84}, {38, 100}, {68, 90},
                                      {76, 68}, {56, 54}, {30, 64}, {18, 80}, END};
static const ipu__pen six_bow2[]   = {{52, 0},  {28, 28}, {14, 60}, {22, 92}, {48, 100}, {78, 84},
                                      {80, 58}, {56, 46}, {30, 58}, {18, 76}, END};
static const ipu__pen six_stick[]  = {{48, 0},  {30, 30}, {16, 62}, {18, 90}, {40, 98}, {62, 86},
                                      {68, 68}, {52, 62}, {32, 76}, {22, 94}, END};
static const ipu__pen six_stick2[] = {{80, 2},  {50, 20}, {24, 48}, {12, 82}, {34, 98}, {64, 88},
                                      {74, 66}, {58, 58}, {36, 70}, {20, 92}, END};
static const ipu__pen six_wide[]   = {{34, 0},  {14, 30}, {4, 62},  {16, 94}, {52, 100}, {90, 86},
                                      {92, 60}, {62, 46}, {30, 58}, {12, 76}, END};
static const ipu__pen six_wide2[]  = {{62, 0},  {26, 22}, {6, 58},  {14, 92}, {50, 100}, {84, 84},
                                      {82, 58}, {56, 50}, {34, 62}, {26, 78}, END};
static const ipu__pen six_thin[]   = {{52, 0},  {42, 30}, {30, 60}, {26, 88}, {42, 100}, {60, 90},
                                      {62, 70}, {48, 62}, {36, 72}, {28, 88}, END};
static const ipu__pen six_thin2[]  = {{60, 2},  {38, 34}, {24, 66}, {28, 92}, {46, 98}, {64, 82},
                                      {66, 62}, {54, 54}, {38, 66}, {28, 84}, END};
static const ipu__pen six_b[]      = {{16, 0},  {10, 34}, {10, 66}, {24, 98}, {60, 98}, {84, 78},
                                      {76, 54}, {48, 52}, {26, 66}, {14, 84}, END};
static const ipu__pen six_b2[]     = {{30, 0},  {18, 30}, {12, 62}, {22, 94}, {54, 100}, {80, 86},
                                      {80, 66}, {56, 60}, {34, 74}, {20, 92}, END};

/* ---- 7: a corner or a bend; rarely with a bar ---- */

static const ipu__pen seven_straight[] = {{6, 12},  {40, 8},  {84, 4},   TURN,
                                          {68, 32}, {52, 64}, {38, 100}, END};
static const ipu__pen seven_bent[]  = {{14, 10}, {42, 10}, {78, 4}, TURN, {70, 34}, {60, 66}, {56, 100}, END};
static const ipu__pen seven_round[] = {{8, 18},  {36, 6},  {70, 4},   {82, 12},
                                       {70, 38}, {52, 68}, {40, 100}, END};
static const ipu__pen seven_round2[] = {{4, 26},  {18, 8},  {54, 6},   {84, 6},
                                        {76, 32}, {62, 64}, {50, 100}, END};
static const ipu__pen seven_serif[]  = {{8, 28}, {9, 18},  {10, 8},  TURN,      {44, 8}, {80, 4},
                                        TURN,    {68, 34}, {56, 66}, {48, 100}, END};
static const ipu__pen seven_bar[]    = {{6, 10},   {42, 8}, {84, 4},  TURN,     {68, 34}, {54, 66},
                                        {42, 100}, UP,      {30, 56}, {54, 52}, {84, 48}, END};
static const ipu__pen seven_bar2[]   = {{12, 14},  {44, 8}, {80, 6},  TURN,     {70, 36}, {60, 68},
                                        {54, 100}, UP,      {36, 48}, {58, 50}, {92, 46}, END};
static const ipu__pen seven_n[]      = {{10, 42}, {8, 26},  {12, 8},  TURN,      {44, 8},
                                        {76, 6},  {84, 20}, {74, 58}, {64, 100}, END};
static const ipu__pen seven_n2[]     = {{4, 26}, {8, 16},  {14, 4},  TURN,      {40, 12},
                                        {70, 2}, {76, 16}, {58, 58}, {44, 100}, END};
static const ipu__pen seven_short[]  = {{26, 16}, {46, 9}, {68, 2}, TURN, {62, 34}, {56, 66}, {50, 100}, END};
static const ipu__pen seven_short2[] = {{4, 20}, {38, 10}, {88, 0}, TURN, {66, 22}, {42, 54}, {20, 100}, END};

/* ---- 8: one stroke that crosses itself and may not close, or two rings ---- */

static const ipu__pen eight_s[]      = {{74, 14},  {52, 0},  {26, 8},  {24, 28}, {46, 46}, {70, 66}, {70, 90},
                                        {44, 100}, {20, 88}, {24, 66}, {48, 48}, {70, 30}, {78, 8},  END};
static const ipu__pen eight_s2[]     = {{84, 16},  {56, 2},  {30, 14}, {32, 34}, {48, 50}, {62, 70}, {54, 94},
                                        {30, 100}, {14, 86}, {26, 66}, {48, 50}, {72, 34}, {86, 12}, END};
static const ipu__pen eight_cross[]  = {{64, 8},  {40, 0},  {22, 18}, {36, 40}, {58, 56}, {74, 78}, {54, 100},
                                        {24, 94}, {22, 72}, {46, 50}, {70, 32}, {74, 12}, {54, 2},  END};
static const ipu__pen eight_cross2[] = {{70, 12}, {48, 0},  {26, 14}, {32, 36}, {56, 52}, {80, 74}, {62, 98},
                                        {28, 98}, {16, 76}, {42, 54}, {66, 38}, {78, 18}, {58, 0},  END};
static const ipu__pen eight_rings[]  = {{50, 0},  {28, 10}, {28, 34}, {50, 46}, {72, 34}, {72, 10},
                                        {48, 0},  UP,       {50, 46}, {20, 62}, {22, 92}, {50, 100},
                                        {78, 90}, {78, 60}, {48, 46}, END};
static const ipu__pen eight_gap[]    = {{82, 8},   {52, 2},  {28, 16}, {36, 38}, {60, 56}, {70, 80},
                                        {50, 100}, {24, 90}, {30, 66}, {54, 44}, {72, 22}, END};
static const ipu__pen eight_gap2[]   = {{70, 6},   {42, 0},  {18, 18}, {32, 40}, {56, 58}, {74, 82},
                                        {46, 100}, {18, 84}, {32, 62}, {60, 42}, {92, 10}, END};
static const ipu__pen eight_slim[]   = {{66, 4},  {48, 2},  {38, 16}, {44, 34}, {54, 52}, {60, 76},
                                        {48, 98}, {36, 86}, {44, 62}, {56, 36}, {68, 12}, END};
static const ipu__pen eight_slim2[]  = {{72, 8},   {52, 0},  {36, 12}, {46, 36}, {58, 58}, {54, 86},
                                        {36, 100}, {26, 88}, {40, 62}, {58, 40}, {78, 14}, END};

/* ---- 9: a ring, closed or not, and a stem that is straight or bent ---- */

static const ipu__pen nine_stem[]   = {{72, 14}, {50, 0}, {24, 12}, {18, 36}, {36, 48},  {60, 38},
                                       {74, 14}, TURN,    {68, 44}, {62, 70}, {54, 100}, END};
static const ipu__pen nine_stem2[]  = {{66, 8}, {40, 2}, {16, 22}, {22, 44}, {46, 46},  {66, 30},
                                       {76, 8}, TURN,    {74, 38}, {72, 68}, {72, 100}, END};
static const ipu__pen nine_hook[]   = {{70, 12}, {46, 0},  {20, 16}, {20, 38}, {42, 46}, {64, 34},
                                       {74, 10}, {76, 40}, {72, 74}, {52, 98}, {24, 94}, END};
static const ipu__pen nine_hook2[]  = {{78, 16}, {52, 2},  {24, 14}, {18, 36}, {38, 46},  {62, 38},
                                       {78, 18}, {74, 46}, {64, 74}, {46, 96}, {30, 100}, END};
static const ipu__pen nine_open[]   = {{80, 4},  {50, 2}, {24, 16}, {16, 38}, {34, 50},  {58, 40},
                                       {76, 20}, TURN,    {70, 46}, {60, 72}, {44, 100}, END};
static const ipu__pen nine_round[]  = {{76, 20}, {54, 0}, {20, 8},  {4, 36},  {18, 62},  {50, 60}, {74, 32},
                                       {80, 10}, TURN,    {78, 46}, {76, 74}, {74, 100}, END};
static const ipu__pen nine_round2[] = {{66, 12}, {42, 0}, {14, 16}, {10, 40}, {28, 56},  {52, 48}, {66, 28},
                                       {72, 12}, TURN,    {68, 46}, {60, 74}, {48, 100}, END};
static const ipu__pen nine_q[]      = {{64, 6}, {36, 4}, {14, 26}, {20, 50}, {46, 50},  {70, 32},
                                       UP,      {78, 2}, {74, 40}, {70, 72}, {68, 100}, END};
static const ipu__pen nine_q2[]     = {{74, 8}, {44, 2}, {20, 18}, {22, 40}, {44, 44},  {74, 28},
                                       UP,      {74, 4}, {66, 40}, {56, 70}, {44, 100}, END};
static const ipu__pen nine_g[]      = {{74, 14}, {48, 0},  {18, 16}, {18, 40},  {42, 48}, {66, 34},
                                       {78, 10}, {82, 44}, {78, 80}, {52, 100}, {14, 88}, END};

const ipu__shape ipu__shapes[] = {
    {0, 0.25f, zero_narrow, zero_round},
    {0, 0.17f, zero_open, zero_shut},
    {0, 0.17f, zero_curl, zero_curl2},
    {0, 0.16f, zero_tail, zero_tail2},
    {0, 0.25f, zero_plain, zero_plain2},
    {1, 0.80f, one_bow, one_stick},
    {1, 0.13f, one_flag, one_flag2},
    {1, 0.07f, one_foot, one_foot2},
    {2, 0.20f, two_flat, two_neck},
    {2, 0.20f, two_z, two_z2},
    {2, 0.20f, two_loop, two_loop2},
    {2, 0.25f, two_wide, two_wide2},
    {2, 0.15f, two_curl, two_curl2},
    {3, 0.41f, three_bows, three_bows2},
    {3, 0.27f, three_loop, three_loop2},
    {3, 0.14f, three_flat, NULL},
    {3, 0.18f, three_slim, three_slim2},
    {4, 0.27f, four_open, four_tall},
    {4, 0.22f, four_u, four_u2},
    {4, 0.13f, four_closed, four_closed2},
    {4, 0.08f, four_one, NULL},
    {4, 0.12f, four_mid, four_mid2},
    {4, 0.10f, four_bow, four_bow2},
    {4, 0.08f, four_tent, NULL},
    {5, 0.25f, five_hat, five_hat2},
    {5, 0.22f, five_one, five_one2},
    {5, 0.22f, five_s, five_s2},
    {5, 0.24f, five_far, five_far2},
    {5, 0.07f, five_shut, NULL},
    {6, 0.32f, six_bow, six_bow2},
    {6, 0.20f, six_stick, six_stick2},
    {6, 0.16f, six_wide, six_wide2},
    {6, 0.18f, six_thin, six_thin2},
    {6, 0.14f, six_b, six_b2},
    {7, 0.27f, seven_straight, seven_bent},
    {7, 0.22f, seven_round, seven_round2},
    {7, 0.08f, seven_serif, NULL},
    {7, 0.15f, seven_bar, seven_bar2},
    {7, 0.13f, seven_n, seven_n2},
    {7, 0.15f, seven_short, seven_short2},
    {8, 0.34f, eight_s, eight_s2},
    {8, 0.22f, eight_cross, eight_cross2},
    {8, 0.14f, eight_rings, NULL},
    {8, 0.18f, eight_gap, eight_gap2},
    {8, 0.12f, eight_slim, eight_slim2},
    {9, 0.28f, nine_stem, nine_stem2},
    {9, 0.18f, nine_hook, nine_hook2},
    {9, 0.14f, nine_open, nine_stem},
    {9, 0.18f, nine_round, nine_round2},
    {9, 0.12f, nine_q, nine_q2},
    {9, 0.10f, nine_g, nine_hook},
};
const int ipu__n_shapes = sizeof ipu__shapes / sizeof *ipu__shapes;

/* The lines of a computation, read in one pass: what `read_rows` and `Builder.from_rows` do for lines in their usual form.

The rules are those of the expressions in instruction_lines.py and of the loop in build.py, which read everything that
this file does not accept: it proves less, and never reads anything else than they do. A body that is not proved leaves
no trace. Only characters of ASCII are read, so that bytes are characters. */

#define Py_LIMITED_API 0x030B0000
#define PY_SSIZE_T_CLEAN
#include <Python.h>
#include <stdint.h>
#include <string.h>

/* As in build.py; below PLAIN, a kind is the number of operands. */
enum { PLAIN = 16, TUPLE, ELEMENT, FREE, CALLER, PARAMETER, CONSTANT };

enum { MAX_NESTING = 5 }; /* parentheses in operands, as in instruction_lines.py */
enum { SLOTS = 8 };

/* --- what a line says, as offsets --- */

typedef struct {
    uint32_t name, name_end, shape, shape_end, opcode, opcode_end, operands, operands_end, end;
    uint32_t first, count; /* of the resolved operands */
    uint32_t hash;
    int is_root;
} Line;

typedef struct {
    const char *text;
    uint32_t end; /* the line break after the last line */
    Line *lines;
    uint32_t count, room;
    uint32_t *operands; /* the number of each line that an operand names */
    uint32_t operand_count, operand_room;
    uint32_t *table; /* lines by the hash of their names: their numbers from 1 */
    uint32_t mask;
    uint64_t steps; /* still allowed in the table, so that no choice of names makes it slow */
} Body;

enum { FAILED = -1, NOT_PROVED = 0, PROVED = 1 };

enum { NAME = 1, OPCODE = 2, BEFORE_BRACE = 4, IN_LAYOUT = 8, PLAIN_TAIL = 16 };

static unsigned char kinds_of[256];

static void
set_kinds(void)
{
    for (int c = 0; c < 256; c++) {
        int is_lower = c >= 'a' && c <= 'z', is_digit = c >= '0' && c <= '9', is_upper = c >= 'A' && c <= 'Z';
        int is_quote = c == '"' || c == '\'', kinds = 0;
        if (is_lower || is_digit || is_upper || c == '_' || c == '.' || c == '-')
            kinds |= NAME;
        if (is_lower || is_digit || c == '-')
            kinds |= OPCODE;
        if (!is_quote && c != '\n') {
            kinds |= PLAIN_TAIL;
            if (c != ' ')
                kinds |= IN_LAYOUT;
            if (c != ' ' && c != '(' && c != '{' && c != '=')
                kinds |= BEFORE_BRACE;
        }
        kinds_of[c] = (unsigned char)kinds;
    }
}

/* Every text has a line break at its end, which no kind of character includes: a run needs no other check. */
static inline uint32_t
skip(const char *text, uint32_t at, int kind)
{
    while (kinds_of[(unsigned char)text[at]] & kind)
        at++;
    return at;
}

static inline int
is_lower(char c)
{
    return c >= 'a' && c <= 'z';
}

/* The end of an opcode before its parenthesis, which follows the space at `at`; 0 if there is none. */
static uint32_t
opcode_end(const char *text, uint32_t at)
{
    if (text[at] != ' ' || !is_lower(text[at + 1]))
        return 0;
    uint32_t end = skip(text, at + 1, OPCODE);
    return text[end] == '(' ? end : 0;
}

/* The end of a shape before its opcode; 0 if that is not certain. */
static uint32_t
shape_end(const char *text, uint32_t at)
{
    if (text[at] == '(') { /* a tuple ends at the first parenthesis before an opcode */
        for (at++; kinds_of[(unsigned char)text[at]] & PLAIN_TAIL; at++)
            if (text[at] == ')' && opcode_end(text, at + 1))
                return at + 1;
        return 0;
    }
    if (text[at] == 'b' && text[at + 1] == '(')
        at += 2;
    uint32_t end = skip(text, at, BEFORE_BRACE);
    if (end == at)
        return 0;
    return text[end] == '{' ? skip(text, end + 1, IN_LAYOUT) : end;
}

/* The parenthesis that closes the one before `at`; 0 if quotes, line breaks, or deep nesting come first. */
static uint32_t
closing(const char *text, uint32_t at)
{
    for (int depth = 0; kinds_of[(unsigned char)text[at]] & PLAIN_TAIL; at++) {
        if (text[at] == '(' && ++depth > MAX_NESTING)
            return 0;
        if (text[at] == ')' && depth-- == 0)
            return at;
    }
    return 0;
}

/* The line break after attributes whose strings are all closed; 0 if a string is not. */
static uint32_t
tail_end(const char *text, uint32_t at)
{
    if (text[at] == '\n')
        return at;
    if (text[at] != ',')
        return 0;
    while (text[at = skip(text, at, PLAIN_TAIL)] != '\n') {
        char quote = text[at];
        for (at++; text[at] != quote; at++) {
            if (text[at] == '\\')
                at++;
            if (text[at] == '\n')
                return 0;
        }
        at++;
    }
    return at;
}

static int
read_line(const char *text, uint32_t at, Line *line)
{
    if (text[at] != '\n')
        return NOT_PROVED;
    for (at++; text[at] == ' ';)
        at++;
    line->is_root = strncmp(text + at, "ROOT ", 5) == 0;
    at += line->is_root ? 5 : 0;
    at += text[at] == '%';
    line->name = at;
    line->name_end = at = skip(text, at, NAME);
    if (at == line->name || text[at] != ' ' || text[at + 1] != '=' || text[at + 2] != ' ')
        return NOT_PROVED;
    line->shape = at + 3;
    line->shape_end = at = shape_end(text, at + 3);
    if (at == 0 || (line->opcode_end = opcode_end(text, at)) == 0)
        return NOT_PROVED;
    line->opcode = at + 1;
    line->operands = line->opcode_end + 1;
    if ((line->operands_end = closing(text, line->operands)) == 0)
        return NOT_PROVED;
    return (line->end = tail_end(text, line->operands_end + 1)) != 0 ? PROVED : NOT_PROVED;
}

/* --- names --- */

static uint32_t
hash_of(const char *text, uint32_t length)
{
    uint64_t hash = length, part;
    for (; length >= 8; text += 8, length -= 8) {
        memcpy(&part, text, 8);
        hash = (hash ^ part) * 0x9E3779B97F4A7C15u;
        hash ^= hash >> 32;
    }
    part = 0;
    memcpy(&part, text, length);
    hash = (hash ^ part) * 0x9E3779B97F4A7C15u;
    /* names that differ in a number alone, as nearly all do, would share their low bits without another round */
    hash = (hash ^ hash >> 32) * 0xD6E8FEB86659FD93u;
    return (uint32_t)(hash >> 32);
}

static int
grow(void *array, uint32_t *room, size_t size)
{
    if (*room > UINT32_MAX / 2)
        return FAILED;
    uint32_t larger = *room ? *room * 2 : 64;
    void *moved = PyMem_Realloc(*(void **)array, larger * size);
    if (moved == NULL)
        return FAILED;
    *(void **)array = moved;
    *room = larger;
    return PROVED;
}

/* The place in the table of the line with a name, or the free one where it belongs; NULL if that takes too long. */
static uint32_t *
place_of(Body *body, const char *name, uint32_t length, uint32_t hash)
{
    for (uint32_t at = hash;; at++) {
        uint32_t *place = &body->table[at & body->mask];
        if (*place == 0)
            return place;
        const Line *line = &body->lines[*place - 1];
        if (line->hash == hash && line->name_end - line->name == length
            && memcmp(body->text + line->name, name, length) == 0)
            return place;
        if (body->steps-- == 0)
            return NULL;
    }
}

static int
make_table(Body *body)
{
    uint32_t size = body->mask ? (body->mask + 1) * 2 : 64;
    if (size == 0)
        return NOT_PROVED;
    PyMem_Free(body->table);
    body->table = PyMem_Calloc(size, sizeof(uint32_t));
    if (body->table == NULL)
        return FAILED;
    body->mask = size - 1;
    for (uint32_t number = 0; number < body->count; number++) {
        uint32_t at = body->lines[number].hash;
        while (body->table[at & body->mask] != 0) {
            if (body->steps-- == 0)
                return NOT_PROVED;
            at++;
        }
        body->table[at & body->mask] = number + 1;
    }
    return PROVED;
}

/* Adds a line to those that operands may name; names are unique. */
static int
define(Body *body)
{
    int done = PROVED;
    if (body->count * 2 >= body->mask && (done = make_table(body)) != PROVED)
        return done;
    Line *line = &body->lines[body->count];
    uint32_t length = line->name_end - line->name;
    line->hash = hash_of(body->text + line->name, length);
    uint32_t *place = place_of(body, body->text + line->name, length, line->hash);
    if (place == NULL || *place != 0)
        return NOT_PROVED;
    *place = ++body->count;
    return PROVED;
}

/* Skips `/ * index=5 * /`, which XLA writes before each fifth operand. */
static uint32_t
skip_mark(const char *text, uint32_t at)
{
    if (text[at] != '/' || strncmp(text + at, "/*index=", 8) != 0)
        return at;
    uint32_t end = at + 8;
    while (text[end] >= '0' && text[end] <= '9')
        end++;
    return end > at + 8 && text[end] == '*' && text[end + 1] == '/' ? end + 2 : at;
}

/* Resolves operands that are names of lines above, all with % or none; anything else is not proved. */
static int
resolve(Body *body, Line *line)
{
    const char *text = body->text;
    uint32_t at = line->operands, end = line->operands_end;
    line->first = body->operand_count;
    int has_percent = -1, has_mark = 0, done;
    while (at < end) {
        uint32_t before = at;
        at = skip_mark(text, at);
        has_mark |= at > before;
        int percent = text[at] == '%';
        if (has_percent >= 0 && has_percent != percent)
            return NOT_PROVED;
        has_percent = percent;
        uint32_t name = at + percent, after = skip(text, name, NAME);
        if (after == name || !(after == end || (text[after] == ',' && text[after + 1] == ' ' && after + 2 < end)))
            return NOT_PROVED;
        if (body->mask == 0)
            return NOT_PROVED;
        uint32_t length = after - name;
        uint32_t *place = place_of(body, text + name, length, hash_of(text + name, length));
        if (place == NULL || *place == 0)
            return NOT_PROVED;
        if (body->operand_count == body->operand_room
            && (done = grow(&body->operands, &body->operand_room, sizeof(uint32_t))) != PROVED)
            return done;
        body->operands[body->operand_count++] = *place - 1;
        at = after == end ? end : after + 2;
    }
    line->count = body->operand_count - line->first;
    return has_mark && line->count < 2 ? NOT_PROVED : PROVED;
}

/* --- a body --- */

static int
is_word(const char *text, uint32_t start, uint32_t end, const char *word)
{
    size_t length = strlen(word);
    return end - start == length && memcmp(text + start, word, length) == 0;
}

static inline int
has_argument(const char *text, const Line *line)
{
    return is_word(text, line->opcode, line->opcode_end, "parameter")
           || is_word(text, line->opcode, line->opcode_end, "constant");
}

/* Reads all lines, and proves that nothing else is between them. */
static int
read_body(Body *body)
{
    const char *text = body->text;
    int done;
    for (uint32_t at = 0; at < body->end;) {
        if (body->count == body->room && (done = grow(&body->lines, &body->room, sizeof(Line))) != PROVED)
            return done;
        Line *line = &body->lines[body->count];
        if ((done = read_line(text, at, line)) != PROVED)
            return done;
        line->first = line->count = 0;
        if (!has_argument(text, line) && (done = resolve(body, line)) != PROVED)
            return done;
        body->steps += 8;
        if ((done = define(body)) != PROVED)
            return done;
        at = line->end;
    }
    if (body->count == 0)
        return NOT_PROVED;
    const Line *last = &body->lines[body->count - 1];
    long open = 0; /* the brace that ends the body may belong to a dictionary */
    for (uint32_t at = last->operands_end + 1; at < last->end; at++)
        open += (text[at] == '{') - (text[at] == '}');
    return open == 0 ? PROVED : NOT_PROVED;
}

/* --- instructions --- */

typedef struct {
    PyObject *computation, *type, *slots, *kinds, *shapes, *read_shape;
    allocfunc allocate;
    descrsetfunc set[SLOTS];
    PyObject *slot[SLOTS];
    PyObject *empty;
    PyObject *instructions, *parameters, *doubtful, *callers, *root;
    uint64_t *lengths; /* of arguments, then of tails */
} Maker;

static PyObject *
text_of(const Body *body, uint32_t start, uint32_t end)
{
    return PyUnicode_FromStringAndSize(body->text + start, (Py_ssize_t)(end - start));
}

static PyObject *
shape_of(const Body *body, const Line *line, Maker *maker)
{
    PyObject *text = text_of(body, line->shape, line->shape_end);
    if (text == NULL)
        return NULL;
    PyObject *shape = PyDict_GetItemWithError(maker->shapes, text);
    if (shape != NULL)
        Py_INCREF(shape);
    else if (!PyErr_Occurred())
        shape = PyObject_CallFunctionObjArgs(maker->read_shape, text, NULL);
    Py_DECREF(text);
    return shape;
}

static PyObject *
operands_of(const Body *body, const Line *line, Maker *maker)
{
    if (line->count == 0) {
        Py_INCREF(maker->empty);
        return maker->empty;
    }
    PyObject *operands = PyTuple_New(line->count);
    for (uint32_t i = 0; operands != NULL && i < line->count; i++) {
        PyObject *operand = PyList_GetItem(maker->instructions, body->operands[line->first + i]);
        Py_XINCREF(operand);
        if (operand == NULL || PyTuple_SetItem(operands, i, operand) < 0)
            Py_CLEAR(operands);
    }
    return operands;
}

/* Sets a slot to a value, of which it takes the reference. */
static int
put(Maker *maker, PyObject *instruction, int slot, PyObject *value)
{
    int failed = value == NULL || maker->set[slot](maker->slot[slot], instruction, value) < 0;
    Py_XDECREF(value);
    return failed ? FAILED : PROVED;
}

static int
append(PyObject *list, PyObject *item)
{
    int failed = item == NULL || PyList_Append(list, item) < 0;
    Py_XDECREF(item);
    return failed ? FAILED : PROVED;
}

/* The number in front of a parameter, as `from_rows` reads it: 0 if it is none of up to nine digits. */
static PyObject *
numbered(const Body *body, const Line *line, PyObject *instruction)
{
    long number = 0;
    uint32_t at = line->operands, length = line->operands_end - at;
    for (; length < 10 && at < line->operands_end; at++) {
        char c = body->text[at];
        if (c < '0' || c > '9') {
            number = 0;
            break;
        }
        number = number * 10 + (c - '0');
    }
    return Py_BuildValue("(lO)", number, instruction);
}

/* The name that a fusion in its usual form calls, as `_FUSION_CALL` in build.py has it: its end; 0 if it is not certain. */
static uint32_t
called_by(const char *text, const Line *line, uint32_t *start)
{
    uint32_t at = line->operands_end + 1;
    if (!is_word(text, line->opcode, line->opcode_end, "fusion") || strncmp(text + at, ", kind=k", 8) != 0)
        return 0;
    at += 8;
    if (text[at] < 'A' || text[at] > 'Z' || !is_lower(text[at + 1]))
        return 0;
    for (at++; is_lower(text[at]);)
        at++;
    if (strncmp(text + at, ", calls=", 8) != 0)
        return 0;
    at += 8;
    at += text[at] == '%';
    char first = text[at];
    if (!(is_lower(first) || (first >= 'A' && first <= 'Z') || first == '_'))
        return 0;
    uint32_t end = skip(text, *start = at, NAME);
    if (text[end] != ',' && end != line->end)
        return 0;
    long open = 0; /* a dictionary may go on below the line */
    for (at = end; at < line->end; at++)
        open += (text[at] == '{') - (text[at] == '}');
    return open == 0 ? end : 0;
}

/* Lists an instruction where a check of `from_rows` in build.py is left to do. */
static int
classify(const Body *body, const Line *line, Maker *maker, PyObject *instruction, long kind)
{
    uint32_t tail = line->operands_end + 1;
    if (kind == PARAMETER)
        return append(maker->parameters, numbered(body, line, instruction));
    if (kind < CONSTANT && line->count > 0 ? kind < FREE && kind != (long)line->count : kind > 0 && kind < CALLER) {
        uint32_t start = kind == ELEMENT ? tail : line->end;
        PyObject *text = text_of(body, start, line->end);
        PyObject *item = text ? Py_BuildValue("(OlN)", instruction, line->count ? kind : -1, text) : NULL;
        if (append(maker->doubtful, item) < 0)
            return FAILED;
    }
    if (kind != CALLER)
        return PROVED;
    uint32_t start, end = called_by(body->text, line, &start);
    PyObject *text = end != 0 ? text_of(body, start, end) : text_of(body, tail, line->end);
    return append(maker->callers, text ? Py_BuildValue("(ON)", instruction, text) : NULL);
}

/* One instruction; its list holds it at once, so that nothing is lost if a later one fails. */
static int
make(const Body *body, uint32_t number, Maker *maker)
{
    const Line *line = &body->lines[number];
    PyObject *instruction = maker->allocate((PyTypeObject *)maker->type, 0);
    if (instruction == NULL || PyList_Append(maker->instructions, instruction) < 0) {
        Py_XDECREF(instruction);
        return FAILED;
    }
    Py_DECREF(instruction);
    PyObject *opcode = text_of(body, line->opcode, line->opcode_end);
    if (opcode == NULL)
        return FAILED;
    long kind = CALLER;
    PyObject *known = PyDict_GetItemWithError(maker->kinds, opcode);
    if (known != NULL) { /* one text for all instructions of a known opcode */
        PyUnicode_InternInPlace(&opcode);
        kind = PyLong_AsLong(known);
    }
    if (PyErr_Occurred()) {
        Py_DECREF(opcode);
        return FAILED;
    }
    Py_INCREF(maker->empty);
    Py_INCREF(maker->computation);
    Py_INCREF(Py_None);
    int failed = put(maker, instruction, 2, opcode) < 0;
    failed |= put(maker, instruction, 4, maker->empty) < 0;
    failed |= put(maker, instruction, 5, maker->computation) < 0;
    failed |= put(maker, instruction, 7, Py_None) < 0;
    if (failed || put(maker, instruction, 0, text_of(body, line->name, line->name_end)) < 0
        || put(maker, instruction, 1, shape_of(body, line, maker)) < 0
        || put(maker, instruction, 3, operands_of(body, line, maker)) < 0
        || put(maker, instruction, 6, PyLong_FromUnsignedLong(number)) < 0)
        return FAILED;
    maker->lengths[number] = has_argument(body->text, line) ? line->operands_end - line->operands : 0;
    maker->lengths[body->count + number] = line->end - line->operands_end - 1;
    if (line->is_root)
        maker->root = instruction;
    return classify(body, line, maker, instruction, kind);
}

static PyObject *
make_all(const Body *body, Maker *maker)
{
    uint32_t roots = 0;
    for (uint32_t number = 0; number < body->count; number++)
        roots += body->lines[number].is_root;
    if (roots > 1)
        Py_RETURN_NONE;
    for (int slot = 0; slot < SLOTS; slot++) {
        maker->slot[slot] = PyTuple_GetItem(maker->slots, slot);
        if (maker->slot[slot] == NULL)
            return NULL;
        maker->set[slot] = (descrsetfunc)PyType_GetSlot(Py_TYPE(maker->slot[slot]), Py_tp_descr_set);
    }
    maker->allocate = (allocfunc)PyType_GetSlot((PyTypeObject *)maker->type, Py_tp_alloc);
    Py_ssize_t size = (Py_ssize_t)body->count * (Py_ssize_t)sizeof(uint64_t);
    PyObject *result = NULL;
    maker->root = Py_None;
    maker->lengths = PyMem_Malloc((size_t)size * 2);
    maker->empty = PyTuple_New(0);
    maker->instructions = PyList_New(0);
    maker->parameters = PyList_New(0);
    maker->doubtful = PyList_New(0);
    maker->callers = PyList_New(0);
    int failed = !maker->empty || !maker->instructions || !maker->parameters || !maker->doubtful || !maker->callers;
    if (maker->lengths == NULL)
        PyErr_NoMemory();
    else if (!failed) {
        for (uint32_t number = 0; number < body->count && !failed; number++)
            failed = make(body, number, maker) < 0;
        if (!failed)
            result = Py_BuildValue("(OOOOOy#y#)", maker->instructions, maker->root, maker->parameters,
                                   maker->doubtful, maker->callers, (char *)maker->lengths, size,
                                   (char *)(maker->lengths + body->count), size);
    }
    PyMem_Free(maker->lengths);
    Py_XDECREF(maker->empty);
    Py_XDECREF(maker->instructions);
    Py_XDECREF(maker->parameters);
    Py_XDECREF(maker->doubtful);
    Py_XDECREF(maker->callers);
    return result;
}

/* --- the function --- */

PyDoc_STRVAR(read_lines_doc, "The instructions of a body, or None if its lines are not provably one instruction each.");

static PyObject *
read_lines(PyObject *Py_UNUSED(module), PyObject *args)
{
    PyObject *text;
    Py_ssize_t start, end, length;
    Maker maker;
    memset(&maker, 0, sizeof maker);
    if (!PyArg_ParseTuple(args, "UnnOO!O!O!O!O:read_lines", &text, &start, &end, &maker.computation, &PyType_Type,
                          &maker.type, &PyTuple_Type, &maker.slots, &PyDict_Type, &maker.kinds, &PyDict_Type,
                          &maker.shapes, &maker.read_shape))
        return NULL;
    const char *bytes = PyUnicode_AsUTF8AndSize(text, &length);
    if (bytes == NULL)
        return NULL;
    if (length != PyUnicode_GetLength(text) || start < 0 || end <= start || end >= length || bytes[end] != '\n'
        || end - start >= (Py_ssize_t)UINT32_MAX)
        Py_RETURN_NONE;
    Body body;
    memset(&body, 0, sizeof body);
    body.text = bytes + start;
    body.end = (uint32_t)(end - start);
    int done = read_body(&body);
    PyObject *result = NULL;
    if (done == PROVED)
        result = make_all(&body, &maker);
    else if (done == NOT_PROVED) {
        Py_INCREF(Py_None);
        result = Py_None;
    }
    else
        PyErr_NoMemory();
    PyMem_Free(body.lines);
    PyMem_Free(body.operands);
    PyMem_Free(body.table);
    return result;
}

static PyMethodDef methods[] = {
    {"read_lines", read_lines, METH_VARARGS, read_lines_doc},
    {NULL, NULL, 0, NULL},
};

static int
start_module(PyObject *Py_UNUSED(module))
{
    set_kinds();
    return 0;
}

static PyModuleDef_Slot slots[] = {
    {Py_mod_exec, start_module},
    {0, NULL},
};

static struct PyModuleDef definition = {
    PyModuleDef_HEAD_INIT,
    .m_name = "fast_lines",
    .m_doc = "The usual lines of computations, read without regular expressions.",
    .m_methods = methods,
    .m_slots = slots,
};

PyMODINIT_FUNC
PyInit_fast_lines(void)
{
    return PyModuleDef_Init(&definition);
}

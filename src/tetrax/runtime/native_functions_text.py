"""The LLVM IR text of builtin functions: the one behind every native runner, and `address_of`.

`run(self, args, count)` follows CPython's convention for functions that take their arguments as an
array. `self` is a tuple whose first item, a `bytes` object, is the record of the program: 64-bit
words with the contents that `native_runner` writes, in this order (`_FIELDS`), followed by the
types of the arguments, the types of the results, the sizes of the results (-1: a block is given for
it), and the addresses of constants. Objects in the record are pointers to what `self` holds.

Errors leave by `error` (an exception is set), after giving up what was made.
"""

from __future__ import annotations

CALL_SYMBOL = "tetrax_call"
ADDRESS_SYMBOL = "tetrax_address_of"

# What the text uses of the C API; all of it belongs to the stable interface.
IMPORTS = (
    "PyBytes_AsString",
    "PyBytes_FromStringAndSize",
    "PyCapsule_GetPointer",
    "PyErr_Occurred",
    "PyEval_RestoreThread",
    "PyEval_SaveThread",
    "PyList_GetItem",
    "PyList_New",
    "PyList_SetItem",
    "PyLong_AsUnsignedLongLong",
    "PyLong_FromUnsignedLongLong",
    "PyObject_GetAttr",
    "PyObject_SetAttr",
    "PyObject_Type",
    "PyTuple_GetItem",
    "PyType_GenericAlloc",
    "Py_DecRef",
    "Py_IncRef",
)

_FIELDS = (
    *("entry", "context", "ins", "outs", "constants", "prefix", "stack", "single", "release"),
    "in_flight",
    *("array_type", "aval_name", "address_name", "owner_name", "block_address_name"),
    *("mismatch", "failed"),
)
_POINTERS = frozenset(_FIELDS[_FIELDS.index("in_flight") :]) | {"entry"}

_DECLARATIONS = """\
declare ptr @PyBytes_AsString(ptr)
declare ptr @PyBytes_FromStringAndSize(ptr, i64)
declare ptr @PyCapsule_GetPointer(ptr, ptr)
declare ptr @PyErr_Occurred()
declare void @PyEval_RestoreThread(ptr)
declare ptr @PyEval_SaveThread()
declare ptr @PyList_GetItem(ptr, i64)
declare ptr @PyList_New(i64)
declare i32 @PyList_SetItem(ptr, i64, ptr)
declare i64 @PyLong_AsUnsignedLongLong(ptr)
declare ptr @PyLong_FromUnsignedLongLong(i64)
declare ptr @PyObject_GetAttr(ptr, ptr)
declare i32 @PyObject_SetAttr(ptr, ptr, ptr)
declare ptr @PyObject_Type(ptr)
declare ptr @PyTuple_GetItem(ptr, i64)
declare ptr @PyType_GenericAlloc(ptr, i64)
declare void @Py_DecRef(ptr)
declare void @Py_IncRef(ptr)
"""

# The value of an attribute that must be an unsigned integer: an i64, and whether there is an error.
_READ_ADDRESS = """\
define internal {i64, i1} @read_address(ptr %object, ptr %name) {
  %boxed = call ptr @PyObject_GetAttr(ptr %object, ptr %name)
  %missing = icmp eq ptr %boxed, null
  br i1 %missing, label %error, label %unbox
unbox:
  %value = call i64 @PyLong_AsUnsignedLongLong(ptr %boxed)
  call void @Py_DecRef(ptr %boxed)
  %suspect = icmp eq i64 %value, -1
  br i1 %suspect, label %ask, label %fine
ask:
  %raised = call ptr @PyErr_Occurred()
  %bad = icmp ne ptr %raised, null
  br i1 %bad, label %error, label %fine
fine:
  %result = insertvalue {i64, i1} {i64 0, i1 0}, i64 %value, 0
  ret {i64, i1} %result
error:
  ret {i64, i1} {i64 0, i1 1}
}
"""

# `address_of(self, array)`: NumPy shows an array to C as a capsule with a documented structure,
# whose data pointer is at byte 40. `self` is the name of the attribute. The address does not depend
# on the capsule, which is dropped at once.
_ADDRESS_OF = """\
define ptr @tetrax_address_of(ptr %self, ptr %array) {
  %capsule = call ptr @PyObject_GetAttr(ptr %array, ptr %self)
  %missing = icmp eq ptr %capsule, null
  br i1 %missing, label %error, label %open
open:
  %interface = call ptr @PyCapsule_GetPointer(ptr %capsule, ptr null)
  %closed = icmp eq ptr %interface, null
  br i1 %closed, label %drop, label %read
read:
  %place = getelementptr i8, ptr %interface, i64 40
  %address = load i64, ptr %place, align 8
  call void @Py_DecRef(ptr %capsule)
  %result = call ptr @PyLong_FromUnsignedLongLong(i64 %address)
  ret ptr %result
drop:
  call void @Py_DecRef(ptr %capsule)
  br label %error
error:
  ret ptr null
}
"""

_CHECK_ARGUMENTS = """\
  %expected = add i64 %ins, %prefix
  %right = icmp eq i64 %count, %expected
  br i1 %right, label %prepare, label %unlike
prepare:
  %some = add i64 %ins, %outs
  %total = add i64 %some, %constants
  %table = alloca i64, i64 %total, align 8
  br label %arguments
arguments:
  %i = phi i64 [ 0, %prepare ], [ %i.next, %argument.take ]
  %i.more = icmp slt i64 %i, %ins
  br i1 %i.more, label %argument, label %constant.start
argument:
  %i.shifted = add i64 %i, %prefix
  %argument.place = getelementptr ptr, ptr %args, i64 %i.shifted
  %object = load ptr, ptr %argument.place, align 8
  %type = call ptr @PyObject_Type(ptr %object)
  call void @Py_DecRef(ptr %type)
  %is.array = icmp eq ptr %type, %array_type
  br i1 %is.array, label %argument.type, label %unlike
argument.type:
  %aval = call ptr @PyObject_GetAttr(ptr %object, ptr %aval_name)
  %aval.missing = icmp eq ptr %aval, null
  br i1 %aval.missing, label %error, label %argument.compare
argument.compare:
  call void @Py_DecRef(ptr %aval)
  %wanted.place = getelementptr ptr, ptr %in_avals, i64 %i
  %wanted = load ptr, ptr %wanted.place, align 8
  %same = icmp eq ptr %aval, %wanted
  br i1 %same, label %argument.address, label %unlike
argument.address:
  %read = call {i64, i1} @read_address(ptr %object, ptr %address_name)
  %read.bad = extractvalue {i64, i1} %read, 1
  br i1 %read.bad, label %error, label %argument.take
argument.take:
  %address = extractvalue {i64, i1} %read, 0
  %i.place = getelementptr i64, ptr %table, i64 %i
  store i64 %address, ptr %i.place, align 8
  %i.next = add i64 %i, 1
  br label %arguments
constant.start:
  br label %constant.head
constant.head:
  %k = phi i64 [ 0, %constant.start ], [ %k.next, %constant ]
  %k.more = icmp slt i64 %k, %constants
  br i1 %k.more, label %constant, label %memory
constant:
  %k.from = getelementptr i64, ptr %constant_addresses, i64 %k
  %k.address = load i64, ptr %k.from, align 8
  %k.shifted = add i64 %some, %k
  %k.place = getelementptr i64, ptr %table, i64 %k.shifted
  store i64 %k.address, ptr %k.place, align 8
  %k.next = add i64 %k, 1
  br label %constant.head
memory:
  %on.stack = icmp sgt i64 %stack, 0
  br i1 %on.stack, label %arena.own, label %arena.asked
arena.own:
  %arena.stack = alloca i8, i64 %stack, align 64
  br label %results.begin
arena.asked:
  %has.prefix = icmp sgt i64 %prefix, 0
  br i1 %has.prefix, label %arena.given, label %results
arena.given:
  %arena.boxed = load ptr, ptr %args, align 8
  %arena.address = call i64 @PyLong_AsUnsignedLongLong(ptr %arena.boxed)
  %arena.pointer = inttoptr i64 %arena.address to ptr
  br label %results
"""

# Results live in a list; a single one in `%array` alone.
_MAKE_RESULTS = """\
results:
  %arena.else = phi ptr [ null, %arena.asked ], [ %arena.pointer, %arena.given ]
  br label %results.begin
results.begin:
  %arena = phi ptr [ %arena.stack, %arena.own ], [ %arena.else, %results ]
  %alone = icmp ne i64 %single, 0
  br i1 %alone, label %result.start, label %list.make
list.make:
  %made = call ptr @PyList_New(i64 %outs)
  %made.not = icmp eq ptr %made, null
  br i1 %made.not, label %error, label %result.start
result.start:
  %list = phi ptr [ null, %results.begin ], [ %made, %list.make ]
  br label %result.head
result.head:
  %j = phi i64 [ 0, %result.start ], [ %j.next, %result.next ]
  %given = phi i64 [ 0, %result.start ], [ %given.next, %result.next ]
  %whole = phi ptr [ %list, %result.start ], [ %whole.next, %result.next ]
  %j.more = icmp slt i64 %j, %outs
  br i1 %j.more, label %result, label %call
result:
  %array = call ptr @PyType_GenericAlloc(ptr %array_type, i64 0)
  %array.not = icmp eq ptr %array, null
  br i1 %array.not, label %give.up, label %result.keep
result.keep:
  br i1 %alone, label %result.fill, label %result.list
result.list:
  %stored = call i32 @PyList_SetItem(ptr %list, i64 %j, ptr %array)
  br label %result.fill
result.fill:
  %whole.next = phi ptr [ %array, %result.keep ], [ %list, %result.list ]
  %out.place = getelementptr ptr, ptr %out_avals, i64 %j
  %out.aval = load ptr, ptr %out.place, align 8
  %set.aval = call i32 @PyObject_SetAttr(ptr %array, ptr %aval_name, ptr %out.aval)
  %size.place = getelementptr i64, ptr %sizes, i64 %j
  %size = load i64, ptr %size.place, align 8
  %is.given = icmp slt i64 %size, 0
  br i1 %is.given, label %owner.given, label %owner.make
owner.make:
  %bytes = call ptr @PyBytes_FromStringAndSize(ptr null, i64 %size)
  %bytes.not = icmp eq ptr %bytes, null
  br i1 %bytes.not, label %give.up.all, label %owner.made
owner.made:
  %start = call ptr @PyBytes_AsString(ptr %bytes)
  %start.number = ptrtoint ptr %start to i64
  %set.bytes = call i32 @PyObject_SetAttr(ptr %array, ptr %owner_name, ptr %bytes)
  call void @Py_DecRef(ptr %bytes)
  br label %result.place
owner.given:
  %blocks.place = getelementptr ptr, ptr %args, i64 1
  %blocks = load ptr, ptr %blocks.place, align 8
  %block = call ptr @PyList_GetItem(ptr %blocks, i64 %given)
  %block.not = icmp eq ptr %block, null
  br i1 %block.not, label %give.up.all, label %owner.read
owner.read:
  %block.read = call {i64, i1} @read_address(ptr %block, ptr %block_address_name)
  %block.bad = extractvalue {i64, i1} %block.read, 1
  br i1 %block.bad, label %give.up.all, label %owner.keep
owner.keep:
  %block.start = extractvalue {i64, i1} %block.read, 0
  %set.block = call i32 @PyObject_SetAttr(ptr %array, ptr %owner_name, ptr %block)
  %given.more = add i64 %given, 1
  br label %result.place
result.place:
  %given.next = phi i64 [ %given, %owner.made ], [ %given.more, %owner.keep ]
  %out.start = phi i64 [ %start.number, %owner.made ], [ %block.start, %owner.keep ]
  %set.owner = phi i32 [ %set.bytes, %owner.made ], [ %set.block, %owner.keep ]
  %out.boxed = call ptr @PyLong_FromUnsignedLongLong(i64 %out.start)
  %out.boxed.not = icmp eq ptr %out.boxed, null
  br i1 %out.boxed.not, label %give.up.all, label %result.box
result.box:
  %set.address = call i32 @PyObject_SetAttr(ptr %array, ptr %address_name, ptr %out.boxed)
  call void @Py_DecRef(ptr %out.boxed)
  %j.shifted = add i64 %ins, %j
  %j.place = getelementptr i64, ptr %table, i64 %j.shifted
  store i64 %out.start, ptr %j.place, align 8
  %set.two = or i32 %set.aval, %set.owner
  %set.all = or i32 %set.two, %set.address
  %set.bad = icmp ne i32 %set.all, 0
  br i1 %set.bad, label %give.up.all, label %result.next
result.next:
  %j.next = add i64 %j, 1
  br label %result.head
"""

_CALL = """\
call:
  %let.go = icmp ne i64 %release, 0
  br i1 %let.go, label %call.freely, label %call.quickly
call.freely:
  %before = atomicrmw add ptr %in_flight, i64 1 seq_cst
  %thread = call ptr @PyEval_SaveThread()
  %status.free = call i32 %entry(ptr %table, ptr %arena, i64 %context)
  call void @PyEval_RestoreThread(ptr %thread)
  %after = atomicrmw sub ptr %in_flight, i64 1 seq_cst
  br label %called
call.quickly:
  %status.quick = call i32 %entry(ptr %table, ptr %arena, i64 %context)
  br label %called
called:
  %status = phi i32 [ %status.free, %call.freely ], [ %status.quick, %call.quickly ]
  %good = icmp eq i32 %status, 0
  br i1 %good, label %done, label %program.failed
done:
  ret ptr %whole
program.failed:
  call void @Py_DecRef(ptr %whole)
  call void @Py_IncRef(ptr %failed)
  ret ptr %failed
unlike:
  call void @Py_IncRef(ptr %mismatch)
  ret ptr %mismatch
give.up:
  br i1 %alone, label %error, label %give.up.list
give.up.list:
  call void @Py_DecRef(ptr %list)
  br label %error
give.up.all:
  call void @Py_DecRef(ptr %whole.next)
  br label %error
error:
  ret ptr null
}
"""


def _loads() -> str:
    """Loads of the record's fields, and the places of its lists."""
    lines = []
    for word, name in enumerate(_FIELDS):
        kind = "ptr" if name in _POINTERS else "i64"
        lines.append(f"  %{name}.place = getelementptr i64, ptr %record, i64 {word}")
        lines.append(f"  %{name} = load {kind}, ptr %{name}.place, align 8")
    lines += [
        f"  %in_avals = getelementptr i64, ptr %record, i64 {len(_FIELDS)}",
        "  %out_avals = getelementptr i64, ptr %in_avals, i64 %ins",
        "  %sizes = getelementptr i64, ptr %out_avals, i64 %outs",
        "  %constant_addresses = getelementptr i64, ptr %sizes, i64 %outs",
    ]
    return "\n".join(lines) + "\n"


def functions_text() -> str:
    """The module that defines both functions."""
    head = (
        f"define ptr @{CALL_SYMBOL}(ptr %self, ptr %args, i64 %count) {{\n"
        "  %holder = call ptr @PyTuple_GetItem(ptr %self, i64 0)\n"
        "  %record = call ptr @PyBytes_AsString(ptr %holder)\n"
    )
    call = head + _loads() + _CHECK_ARGUMENTS + _MAKE_RESULTS + _CALL
    return "\n".join([_DECLARATIONS, _READ_ADDRESS, _ADDRESS_OF, call])

-- SPDX-License-Identifier: GPL-2.0
-- Turnstile's packets in Wireshark and tshark, as docs/wire-format.md describes them.
--
--   wireshark -X lua_script:docs/turnstile.lua
--   tshark -2 -X lua_script:docs/turnstile.lua -r capture.pcap -Y turnstile
--
-- Or copy it to ~/.local/lib/wireshark/plugins/. Packets of one message are linked by the cookie:
-- each to its SYNC, a token to the data that answers it (that needs the second pass, -2), and data
-- to its token.

local PORT = 29813
local VERSION = 1
local MAX_LENGTH = 1073741823
local MIN_MSS = 256
local MAX_MSS = 65485
local MAX_SPANS = 16
local MAX_PRIORITY = 7
local MAX_WORTH = 64
local MAX_COOKIES = 16
local MAX_DELIVERED = 4
local MAX_PATIENCE = 36000

local SYNC, TOKEN, DATA, RESEND, FIN, ACK, RESET, CHALLENGE = 1, 2, 3, 4, 5, 6, 7, 8

local types = {
    [1] = "SYNC",
    [2] = "TOKEN",
    [3] = "DATA",
    [4] = "RESEND",
    [5] = "FIN",
    [6] = "ACK",
    [7] = "RESET",
    [8] = "CHALLENGE",
}
local marks = { [0] = "under", [1] = "full", [2] = "over", [3] = "malformed" }
local codes = {
    [1] = "no socket",
    [2] = "aborted by the sender",
    [3] = "closed by the receiver",
    [4] = "unknown message",
    [5] = "too long",
    [6] = "protocol error",
}
-- Bytes before payload and spans.
local sizes = { 44, 18, 22, 16, 16, 22, 16, 20 }
-- The flag that says that a packet of a type is sealed, by its bit, and the bytes that follow.
local sealed_bits = { 5, 6, 5, 5, 5, 5, 5, 5 }
local SEAL_LEN = 32
local kinds = { [0] = "sender, first key", [1] = "sender", [2] = "receiver", [3] = "malformed" }
local told_marks =
    { [0] = "not marked", [1] = "undetermined", [2] = "malformed", [3] = "congestion" }
-- The flags that a type may have.
local known_flags = { 0xde, 0x38, 0x8b, 0, 0, 0x47, 0, 0x10 }

local turnstile = Proto("turnstile", "Turnstile Transport")

local f = {
    version = ProtoField.uint8("turnstile.version", "Version", base.DEC, nil, 0xf0),
    type = ProtoField.uint8("turnstile.type", "Type", base.DEC, types, 0x0f),
    priority = ProtoField.uint8("turnstile.priority", "Priority", base.DEC),
    more = ProtoField.uint8("turnstile.more", "Written behind it, packets and 1", base.DEC),
    flags = ProtoField.uint8("turnstile.flags", "Flags", base.HEX),
    flag_unscheduled = ProtoField.bool("turnstile.flags.unscheduled", "Unscheduled", 8, nil, 0x01),
    flag_unasked = ProtoField.bool("turnstile.flags.unasked", "Unasked", 8, nil, 0x02),
    flag_first = ProtoField.bool("turnstile.flags.first", "With its SYNC", 8, nil, 0x04),
    flag_list = ProtoField.bool("turnstile.flags.list", "List", 8, nil, 0x08),
    confirms = ProtoField.uint64("turnstile.confirms", "Complete", base.HEX),
    flag_delivered = ProtoField.bool(
        "turnstile.flags.delivered", "Others are complete", 8, nil, 0x10),
    delivered = ProtoField.uint64("turnstile.delivered", "Complete", base.HEX),
    delivered_count = ProtoField.uint8("turnstile.delivered.count", "Complete ones", base.DEC),
    flag_short = ProtoField.bool("turnstile.flags.short", "Short message", 8, nil, 0x08),
    flag_unknown_size = ProtoField.bool(
        "turnstile.flags.unknown_size", "Unknown size", 8, nil, 0x02),
    flag_priority = ProtoField.bool("turnstile.flags.priority", "Priority given", 8, nil, 0x04),
    flag_probe = ProtoField.bool("turnstile.flags.probe", "Probe", 8, nil, 0x08),
    flag_acked = ProtoField.bool("turnstile.flags.acked", "Some acknowledged", 8, nil, 0x40),
    flag_grant = ProtoField.bool("turnstile.flags.grant", "Grant", 8, nil, 0x08),
    flag_mark = ProtoField.uint8("turnstile.flags.mark", "Mark", base.DEC, marks, 0x30),
    flag_ticket = ProtoField.bool("turnstile.flags.ticket", "Ticket", 8, nil, 0x10),
    flag_final = ProtoField.bool("turnstile.flags.final", "Final", 8, nil, 0x40),
    flag_paced = ProtoField.bool("turnstile.flags.paced", "Paced", 8, nil, 0x10),
    flag_ecn = ProtoField.uint8("turnstile.flags.ecn", "Marked", base.DEC, told_marks, 0x03),
    flag_notify = ProtoField.bool("turnstile.flags.notify", "Notification", 8, nil, 0x04),
    flag_ren = ProtoField.bool("turnstile.flags.ren", "REN", 8, nil, 0x80),
    flag_sealed = ProtoField.bool("turnstile.flags.sealed", "Sealed", 8, nil, 0x20),
    flag_sealed_token = ProtoField.bool("turnstile.flags.sealed_token", "Sealed", 8, nil, 0x40),
    seal_tag = ProtoField.bytes("turnstile.seal.tag", "Tag"),
    seal_word = ProtoField.uint32("turnstile.seal.word", "Key, or answered number", base.HEX),
    seal_kind = ProtoField.uint32("turnstile.seal.kind", "Sealed by", base.DEC, kinds, 0xc0000000),
    seal_number = ProtoField.uint32("turnstile.seal.number", "Number", base.DEC, nil, 0x3fffffff),
    seal_random = ProtoField.uint64("turnstile.seal.random", "Random number", base.HEX),
    reserved = ProtoField.uint16("turnstile.reserved", "Reserved", base.HEX),
    beyond = ProtoField.uint8("turnstile.beyond", "Tokens beyond one", base.DEC),
    cookie = ProtoField.uint64("turnstile.cookie", "Cookie", base.HEX),
    source_port = ProtoField.uint16("turnstile.source_port", "Source port", base.DEC),
    destination_port = ProtoField.uint16(
        "turnstile.destination_port", "Destination port", base.DEC),
    length = ProtoField.uint32("turnstile.length", "Message length (bytes)", base.DEC),
    deadline = ProtoField.uint32("turnstile.deadline", "Deadline (us)", base.DEC),
    coflow = ProtoField.uint32("turnstile.coflow", "Coflow", base.DEC),
    unscheduled = ProtoField.uint32("turnstile.unscheduled", "Unscheduled (bytes)", base.DEC),
    mss = ProtoField.uint16("turnstile.mss", "Full-length payload (bytes)", base.DEC),
    patience = ProtoField.uint16("turnstile.patience", "Tries for (100 ms)", base.DEC),
    echo = ProtoField.uint64("turnstile.echo", "Echo", base.HEX),
    token = ProtoField.uint16("turnstile.token", "Token sequence", base.DEC),
    timestamp = ProtoField.uint32("turnstile.timestamp", "Token timestamp (ns)", base.DEC),
    offset = ProtoField.uint32("turnstile.offset", "Offset (bytes)", base.DEC),
    payload = ProtoField.bytes("turnstile.data", "Payload"),
    payload_length = ProtoField.uint32("turnstile.data.length", "Payload length (bytes)", base.DEC),
    count = ProtoField.uint16("turnstile.count", "Spans", base.DEC),
    span_start = ProtoField.uint32("turnstile.span.start", "Start", base.DEC),
    span_end = ProtoField.uint32("turnstile.span.end", "End", base.DEC),
    received = ProtoField.uint32("turnstile.received", "Received (bytes)", base.DEC),
    window = ProtoField.uint32("turnstile.window", "Window (bytes)", base.DEC),
    allowance = ProtoField.uint16("turnstile.allowance", "Allowance (64 bytes)", base.DEC),
    code = ProtoField.uint16("turnstile.code", "Code", base.DEC, codes),
    sync_in = ProtoField.framenum("turnstile.sync_in", "Opened in", base.NONE, frametype.REQUEST),
    token_in = ProtoField.framenum(
        "turnstile.token_in", "Answers the token in", base.NONE, frametype.REQUEST),
    data_in = ProtoField.framenum(
        "turnstile.data_in", "Answered in", base.NONE, frametype.RESPONSE),
    token_time = ProtoField.relative_time("turnstile.token_time", "Time since the token"),
    first_in = ProtoField.framenum(
        "turnstile.first_in", "Sent first in", base.NONE, frametype.RETRANS_PREV),
}
turnstile.fields = f

local e_malformed = ProtoExpert.new(
    "turnstile.malformed", "Malformed", expert.group.MALFORMED, expert.severity.ERROR)
local e_repeated = ProtoExpert.new(
    "turnstile.repeated", "These bytes were sent before", expert.group.SEQUENCE,
    expert.severity.NOTE)
local e_reset = ProtoExpert.new(
    "turnstile.reset", "The message failed", expert.group.SEQUENCE, expert.severity.WARN)
turnstile.experts = { e_malformed, e_repeated, e_reset }

-- By cookie: { sync, source, destination, tokens = { [key] = { frame, time } }, answers = { [key] =
-- frame }, data = { [offset] = frame } }. A token's key is its sequence number and its timestamp,
-- as numbers come again.
local messages = {}

function turnstile.init()
    messages = {}
end

local function message_of(cookie)
    local message = messages[cookie]
    if message == nil then
        message = { tokens = {}, answers = {}, data = {} }
        messages[cookie] = message
    end
    return message
end

-- Both a number below 2^8.
local function has_other(flags, known)
    for bit = 0, 7 do
        local value = 2 ^ bit
        if math.floor(flags / value) % 2 == 1 and math.floor(known / value) % 2 == 0 then
            return true
        end
    end
    return false
end

local function link(tree, field, frame)
    if frame ~= nil then
        tree:add(field, frame):set_generated()
    end
end

local function add_flags(tree, tvb, kind)
    local item = tree:add(f.flags, tvb(2, 1))
    local shown = {
        [SYNC] = { f.flag_unknown_size, f.flag_priority, f.flag_probe, f.flag_acked,
            f.flag_paced, f.flag_ren },
        [TOKEN] = { f.flag_grant, f.flag_mark },
        [DATA] = { f.flag_unscheduled, f.flag_unasked, f.flag_first, f.flag_short,
            f.flag_delivered, f.flag_ren },
        [ACK] = { f.flag_ecn, f.flag_notify, f.flag_list, f.flag_delivered,
            f.flag_final },
        [CHALLENGE] = { f.flag_ticket },
    }
    for _, field in ipairs(shown[kind] or {}) do
        item:add(field, tvb(2, 1))
    end
    if types[kind] ~= nil then
        item:add(kind == TOKEN and f.flag_sealed_token or f.flag_sealed, tvb(2, 1))
    end
    return item
end

local function flag(tvb, bit)
    return tvb:range(2, 1):bitfield(7 - bit, 1) == 1
end

-- Each shows its fields, and returns the first that is wrong, in the order of
-- core/src/transport/wire/read.rs, and what the packet list says.
local show = {}

show[SYNC] = function(tree, tvb, pinfo, message)
    local wrong
    local function check(right, field)
        if wrong == nil and not right then
            wrong = field
        end
    end
    local priority = tvb(1, 1):uint()
    local unknown = flag(tvb, 1)
    check(priority <= (flag(tvb, 2) and MAX_PRIORITY or 0), "priority")
    local source, destination = tvb(12, 2):uint(), tvb(14, 2):uint()
    tree:add(f.source_port, tvb(12, 2))
    tree:add(f.destination_port, tvb(14, 2))
    check(source ~= 0 and destination ~= 0, "port")
    local length = tvb(16, 4):uint()
    local item = tree:add(f.length, tvb(16, 4))
    if unknown then
        item:append_text(" (not known yet)")
        check(length == 0, "length")
    else
        check(length >= 1 and length <= MAX_LENGTH, "length")
    end
    tree:add(f.deadline, tvb(20, 4))
    tree:add(f.coflow, tvb(24, 4))
    tree:add(f.unscheduled, tvb(28, 4))
    check(tvb(28, 4):uint() <= length, "unscheduled")
    local mss = tvb(32, 2):uint()
    tree:add(f.mss, tvb(32, 2))
    check(mss >= MIN_MSS and mss <= MAX_MSS, "mss")
    local patience = tvb(34, 2):uint()
    tree:add(f.patience, tvb(34, 2))
    check(patience >= 1 and patience <= MAX_PATIENCE, "patience")
    tree:add(f.echo, tvb(36, 8))
    if wrong == nil and not pinfo.visited and message.sync == nil then
        message.sync, message.source, message.destination = pinfo.number, source, destination
    end
    local text = string.format("%d > %d", source, destination)
    text = text .. (unknown and ", length unknown" or string.format(", %d bytes", length))
    return wrong, text .. (flag(tvb, 3) and ", probe" or "")
end

show[TOKEN] = function(tree, tvb, pinfo, message)
    local wrong
    local mark = tvb(2, 1):bitfield(2, 2)
    local grant = flag(tvb, 3)
    local beyond = tvb(3, 1):uint()
    if mark == 3 or (mark ~= 0 and not grant) or (beyond ~= 0 and grant) then
        wrong = "flags"
    elseif tvb(1, 1):uint() > MAX_PRIORITY then
        wrong = "priority"
    end
    tree:add(f.token, tvb(12, 2))
    tree:add(f.timestamp, tvb(14, 4))
    local sequence = tvb(12, 2):uint()
    if wrong == nil then
        for number = sequence, sequence + beyond do
            local key = number % 65536 .. "/" .. tvb(14, 4):uint()
            if not pinfo.visited and message.tokens[key] == nil then
                message.tokens[key] = { frame = pinfo.number, time = pinfo.abs_ts }
            end
            link(tree, f.data_in, message.answers[key])
        end
    end
    if grant then
        return wrong, string.format("grant %d, %s", sequence, marks[mark])
    end
    local last = beyond ~= 0 and string.format("..%d", (sequence + beyond) % 65536) or ""
    return wrong, string.format("%d%s, priority %d", sequence, last, tvb(1, 1):uint())
end

show[DATA] = function(tree, tvb, pinfo, message)
    local wrong
    local len = tvb:reported_len() - sizes[DATA]
    local token, timestamp, offset = tvb(12, 2):uint(), tvb(14, 4):uint(), tvb(18, 4):uint()
    local unscheduled = flag(tvb, 0)
    local asks = not unscheduled and not flag(tvb, 1)
    tree:add(f.token, tvb(12, 2))
    tree:add(f.timestamp, tvb(14, 4))
    tree:add(f.offset, tvb(18, 4))
    tree:add(f.payload_length, len):set_generated()
    if tvb:len() > sizes[DATA] then
        tree:add(f.payload, tvb(sizes[DATA]))
    end
    local more = tree:add(f.more, tvb(1, 1))
    if tvb(1, 1):uint() ~= 0 then
        more:append_text(string.format(" (%d packets)", tvb(1, 1):uint() - 1))
    end
    if len < 1 then
        wrong = "size"
    elseif not asks and (token ~= 0 or timestamp ~= 0) then
        wrong = "token"
    elseif offset + len > MAX_LENGTH then
        wrong = "offset"
    end
    if wrong == nil then
        local key = token .. "/" .. timestamp
        if not pinfo.visited then
            if asks and message.answers[key] == nil then
                message.answers[key] = pinfo.number
            end
            if message.data[offset] == nil then
                message.data[offset] = pinfo.number
            end
        end
        local asked = message.tokens[key]
        if asks and asked ~= nil and asked.frame < pinfo.number then
            link(tree, f.token_in, asked.frame)
            local seconds = pinfo.abs_ts - asked.time
            local whole = math.floor(seconds)
            local nanos = math.floor((seconds - whole) * 1e9)
            tree:add(f.token_time, NSTime.new(whole, nanos)):set_generated()
        end
        local first = message.data[offset]
        if first ~= nil and first < pinfo.number then
            link(tree, f.first_in, first)
            tree:add_proto_expert_info(e_repeated)
        end
    end
    local how = unscheduled and "unscheduled"
        or flag(tvb, 1) and "unasked" or string.format("token %d", token)
    return wrong, string.format("%d..%d, %s", offset, offset + len, how)
end

-- What tells apart the packets that are longer than others of their type, and how long they are at
-- least; wrong if they have flags that do not go with these.
local function longer_kind(kind, flags)
    local function has(value)
        return math.floor(flags / value) % 2 == 1
    end
    if kind == DATA and has(0x04) then
        local wrong = has_other(flags, 0x1e) or not has(0x02)
        return "first", has(0x10) and 68 or 56, wrong
    elseif kind == ACK and has(0x08) and has(0x10) then
        return "delivered", 14, flags ~= 0x58
    elseif kind == ACK and has(0x08) then
        return "list", 12, flags ~= 0x48
    end
    return nil
end

-- DATA with its SYNC. The order is that of the parser.
local function show_first(tree, tvb, pinfo, message, head)
    local wrong
    local function check(right, field)
        if wrong == nil and not right then
            wrong = field
        end
    end
    local delivers = flag(tvb, 4)
    local count = delivers and tvb(58, 1):uint() or 0
    if delivers then
        head = 60 + 8 * count
    end
    local len = tvb:reported_len() - head
    tree:add(f.more, tvb(1, 1))
    tree:add(f.token, tvb(12, 2))
    tree:add(f.timestamp, tvb(14, 4))
    tree:add(f.offset, tvb(18, 4))
    check(tvb(1, 1):uint() == 1, "priority")
    check(tvb(12, 2):uint() == 0 and tvb(14, 4):uint() == 0, "token")
    check(tvb(18, 4):uint() == 0, "offset")
    local flags = tvb(23, 1):uint()
    local priority = tvb(22, 1):uint()
    check(not has_other(flags, 0x0c), "flags")
    check(priority <= (flags % 8 >= 4 and MAX_PRIORITY or 0), "priority")
    local source, destination = tvb(24, 2):uint(), tvb(26, 2):uint()
    local length = tvb(28, 4):uint()
    tree:add(f.source_port, tvb(24, 2))
    tree:add(f.destination_port, tvb(26, 2))
    tree:add(f.length, tvb(28, 4))
    tree:add(f.deadline, tvb(32, 4))
    tree:add(f.coflow, tvb(36, 4))
    tree:add(f.unscheduled, tvb(40, 4))
    tree:add(f.mss, tvb(44, 2))
    tree:add(f.patience, tvb(46, 2))
    tree:add(f.echo, tvb(48, 8))
    check(source ~= 0 and destination ~= 0, "port")
    check(length >= 1 and length <= MAX_LENGTH, "length")
    check(tvb(40, 4):uint() <= length, "unscheduled")
    local mss, patience = tvb(44, 2):uint(), tvb(46, 2):uint()
    check(mss >= MIN_MSS and mss <= MAX_MSS, "mss")
    check(patience >= 1 and patience <= MAX_PATIENCE, "patience")
    if delivers then
        tree:add(f.allowance, tvb(56, 2))
        tree:add(f.delivered_count, tvb(58, 1))
        check(tvb(59, 1):uint() == 0, "reserved")
        check(count >= 1 and count <= MAX_DELIVERED, "count")
        for at = 60, math.min(tvb:len(), head) - 8, 8 do
            tree:add(f.delivered, tvb(at, 8))
        end
    end
    check(len >= 1, "size")
    check(length == len, "length")
    check(tvb(40, 4):uint() == len, "unscheduled")
    tree:add(f.payload_length, len):set_generated()
    if tvb:len() > head then
        tree:add(f.payload, tvb(head))
    end
    if wrong == nil then
        if not pinfo.visited then
            if message.sync == nil then
                message.sync, message.source, message.destination =
                    pinfo.number, source, destination
            end
            if message.data[0] == nil then
                message.data[0] = pinfo.number
            end
        end
        local first = message.data[0]
        if first ~= nil and first < pinfo.number then
            link(tree, f.first_in, first)
            tree:add_proto_expert_info(e_repeated)
        end
    end
    return wrong, string.format("with SYNC, %d > %d, %d bytes", source, destination, length)
end

-- Messages that the receiver has.
local function show_delivered(tree, tvb)
    local wrong
    local size = tvb:reported_len()
    local count = math.floor((size - 6) / 8)
    if tvb(1, 1):uint() ~= 0 then
        wrong = "priority"
    elseif (size - 6) % 8 ~= 0 or count < 1 or count > MAX_DELIVERED then
        wrong = "size"
    end
    for at = 4, math.min(tvb:len() - 8, size - 10), 8 do
        tree:add(f.delivered, tvb(at, 8))
    end
    if tvb:len() == size then
        tree:add(f.allowance, tvb(size - 2, 2))
    end
    return wrong, string.format("final, of %d messages", count)
end

local function show_list(tree, tvb)
    local wrong
    local size = tvb:reported_len()
    local count = math.floor((size - 4) / 8)
    if tvb(1, 1):uint() ~= 0 then
        wrong = "priority"
    elseif (size - 4) % 8 ~= 0 or count < 1 or count > MAX_COOKIES then
        wrong = "size"
    end
    for at = 12, tvb:len() - 8, 8 do
        tree:add(f.confirms, tvb(at, 8))
    end
    return wrong, string.format("final, of %d messages", count)
end

show[RESEND] = function(tree, tvb)
    local wrong
    local count = tvb(12, 2):uint()
    tree:add(f.count, tvb(12, 2))
    tree:add(f.reserved, tvb(14, 2))
    if tvb(1, 1):uint() ~= 0 then
        wrong = "priority"
    elseif tvb(14, 2):uint() ~= 0 then
        wrong = "reserved"
    elseif count == 0 or count > MAX_SPANS then
        wrong = "count"
    elseif tvb:reported_len() ~= sizes[RESEND] + 8 * count then
        wrong = "size"
    end
    local parts, last = {}, 0
    for at = sizes[RESEND], math.min(tvb:len(), sizes[RESEND] + 8 * count) - 8, 8 do
        local from, to = tvb(at, 4):uint(), tvb(at + 4, 4):uint()
        local item = tree:add(turnstile, tvb(at, 8), string.format("Missing: %d..%d", from, to))
        item:add(f.span_start, tvb(at, 4))
        item:add(f.span_end, tvb(at + 4, 4))
        if wrong == nil and (from < last or to <= from or to > MAX_LENGTH) then
            wrong = "span"
        end
        last = to
        parts[#parts + 1] = string.format("%d..%d", from, to)
    end
    return wrong, table.concat(parts, ", ")
end

show[FIN] = function(tree, tvb)
    local length = tvb(12, 4):uint()
    tree:add(f.length, tvb(12, 4))
    local wrong
    if tvb(1, 1):uint() ~= 0 then
        wrong = "priority"
    elseif length < 1 or length > MAX_LENGTH then
        wrong = "length"
    end
    return wrong, string.format("%d bytes", length)
end

show[ACK] = function(tree, tvb)
    local received, window = tvb(12, 4):uint(), tvb(16, 4):uint()
    tree:add(f.received, tvb(12, 4))
    tree:add(f.window, tvb(16, 4))
    tree:add(f.allowance, tvb(20, 2))
    local wrong
    if tvb(1, 1):uint() ~= 0 then
        wrong = "priority"
    elseif received > MAX_LENGTH then
        wrong = "received"
    elseif window > MAX_LENGTH then
        wrong = "window"
    end
    local mark = tvb(2, 1):bitfield(6, 2)
    if wrong == nil and (mark == 2 or (mark == 0 and flag(tvb, 2))) then
        wrong = "flags"
    end
    local final = flag(tvb, 6) and ", final" or ""
    if mark ~= 0 then
        final = final .. ", " .. (told_marks[mark] or "malformed")
    end
    return wrong, string.format("%d, window %d%s", received, window, final)
end

show[RESET] = function(tree, tvb)
    local code = tvb(12, 2):uint()
    local item = tree:add(f.code, tvb(12, 2))
    tree:add(f.reserved, tvb(14, 2))
    local wrong
    if tvb(1, 1):uint() ~= 0 then
        wrong = "priority"
    elseif codes[code] == nil then
        wrong = "code"
    elseif tvb(14, 2):uint() ~= 0 then
        wrong = "reserved"
    else
        item:add_proto_expert_info(e_reset, "The message failed: " .. codes[code])
    end
    return wrong, codes[code] or string.format("code %d", code)
end

show[CHALLENGE] = function(tree, tvb)
    tree:add(f.echo, tvb(12, 8))
    local wrong
    if tvb(1, 1):uint() ~= 0 then
        wrong = "priority"
    elseif tvb(12, 4):uint() == 0 and tvb(16, 4):uint() == 0 then
        wrong = "echo"
    end
    return wrong, flag(tvb, 4) and "a ticket" or "prove your address"
end

-- The 32 bytes behind a sealed packet.
local function show_seal(tree, tvb)
    tree:add(f.seal_tag, tvb(0, 16))
    tree:add(f.seal_word, tvb(16, 4))
    tree:add(f.seal_kind, tvb(20, 4))
    tree:add(f.seal_number, tvb(20, 4))
    tree:add(f.seal_random, tvb(24, 8))
end

local function malformed(tree, pinfo, field)
    tree:add_proto_expert_info(e_malformed, "Malformed: " .. field)
    pinfo.cols.info:set("[Malformed: " .. field .. "] " .. tostring(pinfo.cols.info))
end

function turnstile.dissector(tvb, pinfo, root)
    pinfo.cols.protocol = "Turnstile"
    local tree = root:add(turnstile, tvb())
    if tvb:len() < 4 then
        pinfo.cols.info = "cut"
        malformed(tree, pinfo, "size")
        return tvb:len()
    end
    local version, kind = tvb(0, 1):bitfield(0, 4), tvb(0, 1):bitfield(4, 4)
    tree:add(f.version, tvb(0, 1))
    tree:add(f.type, tvb(0, 1))
    local name = types[kind] or string.format("type %d", kind)
    tree:append_text(", " .. name)
    pinfo.cols.info = name
    tree:add(f.priority, tvb(1, 1))
    add_flags(tree, tvb, kind)
    if version ~= VERSION then
        malformed(tree, pinfo, "version")
        return tvb:len()
    end
    local beyond = tvb(3, 1):uint()
    if kind == TOKEN and beyond < MAX_WORTH then
        tree:add(f.beyond, tvb(3, 1))
    elseif beyond ~= 0 then
        tree:add(f.reserved, tvb(3, 1))
        malformed(tree, pinfo, "reserved")
        return tvb:len()
    end
    if types[kind] == nil then
        malformed(tree, pinfo, "type")
        return tvb:len()
    end
    -- RESEND says itself how long it is, and of DATA what lacks a payload is looked at later.
    local size = tvb:reported_len()
    local flags = tvb(2, 1):uint()
    if flag(tvb, sealed_bits[kind]) and size > SEAL_LEN then
        if tvb:len() == size then
            show_seal(tree, tvb(size - SEAL_LEN, SEAL_LEN):tvb())
        end
        size = size - SEAL_LEN
        flags = flags - 2 ^ sealed_bits[kind]
        pinfo.cols.info:append(" (sealed)")
        tvb = tvb(0, math.min(size, tvb:len())):tvb()
    end
    local fits = size == sizes[kind]
    if kind == DATA or kind == RESEND then
        fits = size >= sizes[kind]
    end
    local bad_flags = has_other(flags, known_flags[kind])
    local sealed = flags ~= tvb(2, 1):uint()
    local longer, least, bad = longer_kind(kind, flags)
    if longer ~= nil then
        -- Of those the flags are looked at first, too, and they are never sealed.
        bad_flags = bad or sealed
        fits = longer ~= "first" and size >= least or size >= least + 1 or tvb(1, 1):uint() ~= 1
        if bad_flags then
            malformed(tree, pinfo, "flags")
            return tvb:len()
        end
    end
    -- Those two are looked at for flags first.
    if bad_flags and (fits or kind == DATA or kind == RESEND) then
        malformed(tree, pinfo, "flags")
        return tvb:len()
    end
    if not fits then
        malformed(tree, pinfo, "size")
        return tvb:len()
    end
    if tvb:len() < (least or sizes[kind]) then
        tree:append_text(" (not all of it was captured)")
        return tvb:len()
    end
    tree:add(f.cookie, tvb(4, 8))
    local message = message_of(tvb(4, 8):bytes():tohex())
    local wrong, text
    if longer == "first" then
        wrong, text = show_first(tree, tvb, pinfo, message, least)
    elseif longer == "list" then
        wrong, text = show_list(tree, tvb)
    elseif longer == "delivered" then
        wrong, text = show_delivered(tree, tvb)
    else
        wrong, text = show[kind](tree, tvb, pinfo, message)
    end
    pinfo.cols.info:append(" " .. text)
    tree:append_text(", " .. text)
    if message.sync ~= nil and message.sync < pinfo.number then
        link(tree, f.sync_in, message.sync)
        if kind ~= SYNC then
            pinfo.cols.info:append(string.format(" (%d > %d)", message.source, message.destination))
        end
    end
    if wrong ~= nil then
        malformed(tree, pinfo, wrong)
    end
    return tvb:len()
end

DissectorTable.get("udp.port"):add(PORT, turnstile)

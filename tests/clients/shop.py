"""A shop in Flask that knows nothing of idempotency: each POST is another order, kept in SQLite."""

import sqlite3
import sys
import threading
import time

from flask import Flask, jsonify, request
from werkzeug.serving import WSGIRequestHandler, make_server

app = Flask(__name__)
database = sqlite3.connect(sys.argv[1], check_same_thread=False, isolation_level=None)
database.execute("CREATE TABLE orders (id INTEGER PRIMARY KEY, order_no TEXT, amount TEXT)")
one_at_a_time = threading.Lock()


@app.post("/orders")
def create():
    order = request.get_json()
    # Long enough for a repeat to come while it runs.
    time.sleep(0.2)
    with one_at_a_time:
        row = database.execute(
            "INSERT INTO orders (order_no, amount) VALUES (?, ?)",
            (order["order_no"], str(order["amount"])),
        )
    answer = jsonify(id=row.lastrowid, order_no=order["order_no"])
    answer.headers["Location"] = f"/orders/{row.lastrowid}"
    answer.set_cookie("basket", "empty")
    return answer, 201


@app.get("/orders")
def listed():
    with one_at_a_time:
        rows = database.execute("SELECT order_no FROM orders ORDER BY id").fetchall()
    return jsonify([order_no for (order_no,) in rows])


WSGIRequestHandler.protocol_version = "HTTP/1.1"
server = make_server("127.0.0.1", 0, app, threaded=True)
print(server.server_port, flush=True)
server.serve_forever()

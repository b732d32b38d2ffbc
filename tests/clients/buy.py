"""Buys with requests and with httpx, unchanged but for a key: once, again, and five times at once. Prints what came back."""

import json
import sys
from concurrent.futures import ThreadPoolExecutor

import httpx
import requests
from requests.adapters import HTTPAdapter, Retry

url = sys.argv[1] + "/orders"


def session():
    retry = Retry(total=20, backoff_factor=0.05, status_forcelist=[409, 503], allowed_methods=["POST"])
    session = requests.Session()
    session.mount("http://", HTTPAdapter(max_retries=retry))
    return session


def with_requests(order_no):
    headers = {"Idempotency-Key": order_no, "X-User": "ann"}
    answer = session().post(url, json={"order_no": order_no, "amount": 10}, headers=headers)
    return answer.status_code, answer.text, answer.headers.get("Idempotent-Replayed"), answer.headers.get("Location")


def with_httpx(order_no, http2=False):
    headers = {"Idempotency-Key": f'"{order_no}"', "X-User": "ann"}
    with httpx.Client(http1=not http2, http2=http2, timeout=30) as client:
        while True:
            answer = client.post(url, json={"amount": 10.0, "order_no": order_no}, headers=headers)
            if answer.status_code != 409:
                break
    return answer.status_code, answer.text, answer.headers.get("idempotent-replayed"), answer.headers.get("location")


def five(buy, order_no):
    with ThreadPoolExecutor(5) as pool:
        return list(pool.map(buy, [order_no] * 5))


print(json.dumps({
    "requests": [with_requests("r-1"), with_requests("r-1")],
    "requests at once": five(with_requests, "r-2"),
    "httpx": [with_httpx("h-1"), with_httpx("h-1"), with_httpx("h-1", http2=True)],
    "httpx at once": five(with_httpx, "h-2"),
    "one after the other": [with_requests("b-1"), with_httpx("b-1")],
}))

"""The query of an extract: one SELECT with an ORDER BY of its own, whatever else stands in it."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from intarsia.exceptions import InputError
from intarsia.tables.sql import check_query

FINE = [
    "select a from t order by a",
    "SELECT a FROM t\nORDER\nBY a ;\n-- the end; really\n",
    "with x as (select a from t) select * from x order by a",
    "(select a from t) union (select b from u) order by 1",
    "select ';', \"order\", 'it''s', E'a\\'; drop', $$;$$, $q$ ' $$ ; $q$ from t /* ; /* ' */ */ order by a",
    "select array_agg(a order by b) from t order by 1 limit 5",
    "select größe from t order by größe for_no_reason",
]
REFUSED = {
    "": "has no query",
    " -- nothing\n ;": "has no query",
    "select a from t": "no ORDER BY",
    "select array_agg(a order by b) from t": "no ORDER BY",
    "select row_number() over (order by a) from t": "no ORDER BY",
    "select * from (select a from t order by a) s": "no ORDER BY",
    "select 'order by a' from t": "no ORDER BY",
    'select 1 as "order by" from t': "no ORDER BY",
    "select a from t -- order by a": "no ORDER BY",
    "select a from t /* order by a */": "no ORDER BY",
    "select $$ order by a $$": "no ORDER BY",
    "select 1 order by 1; select 2 order by 1": "more than one statement",
    "select 1 order by 1;;": "more than one statement",
    "delete from t": "more than select",
    "insert into t select a from u order by a": "more than select",
    "with x as (delete from t returning a) select * from x order by a": "more than select",
    "with x as (select 1) delete from t": "more than select",
    "explain select a from t order by a": "more than select",
    "copy (select a from t order by a) to '/tmp/x'": "more than select",
    "select a into b from t order by a": "INTO",
    "select (a from t order by a": "bracket that is not closed",
    "select a) from t order by a": "bracket that is not open",
    "select 'a from t order by a": "quotation mark that is not closed",
    "select a /* from t order by a": "comment that is not closed",
}


@pytest.mark.parametrize("query", FINE)
def test_a_query_that_selects_in_an_order_is_taken_without_its_end(query):
    taken = check_query(query, "q.sql")
    assert ";\n" not in taken
    assert check_query(taken, "q.sql") == taken


@pytest.mark.parametrize("query", REFUSED)
def test_a_query_that_does_not_is_refused_with_the_reason(query):
    with pytest.raises(InputError, match=f"q.sql .*{REFUSED[query]}") as error:
        check_query(query, "q.sql")
    assert "Hint" in str(error.value) or "bracket" in str(error.value) or "closed" in str(error.value)


@given(st.text("selct ordby(),;'\"$-/*aq\n\\", max_size=60))
def test_any_text_is_taken_or_refused(text):
    try:
        taken = check_query(text, "q.sql")
    except InputError:
        return
    assert check_query(taken, "q.sql") == taken

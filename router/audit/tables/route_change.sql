-- Routes learned and lost, groups joined and left, links up and down, adverts.
CREATE TABLE route_change AS
SELECT
    routers.key AS router, seq, t,
    minute_of(t) AS minute,
    event,
    coalesce(fields['destination'], fields['group'], fields['peer'], fields['subscriber']) AS subject,
    fields['neighbour'] AS neighbour
FROM events JOIN routers USING (router)
WHERE list_contains(getvariable('route_events'), event);

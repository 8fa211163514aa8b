select
    channel,
    approx_percentile(total, 0.5) as median_total,
    approx_percentile(total, 0.9) as high_total
from orders
group by channel
